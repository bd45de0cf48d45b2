-- Leases tickets that are due and that no worker holds, oldest first.
-- ARGV: now; limit; lease in milliseconds.
-- Returns: a flat list of ticket and expiry time; the milliseconds until the next ticket is due (at most a day), or
-- false.

local limit, lease_end = tonumber(ARGV[2]), int(now_ms + tonumber(ARGV[3]))

-- Members examined at most: tickets that other workers hold are skipped, and many of them would block the server.
local LOOK = 10000

local DAY = 24 * 3600 * 1000

local claimed, leases, offset, page = {}, {}, 0, limit
while #leases < 2 * limit and offset < LOOK do
  local list = redis.call('ZRANGEBYSCORE', EXPIRY_DUE, '-inf', int(now_ms), 'WITHSCORES', 'LIMIT', offset, page)
  if #list == 0 then break end
  local tickets = {}
  for i = 1, #list, 2 do tickets[#tickets + 1] = list[i] end
  local held_until = redis.call('ZMSCORE', EXPIRY_LEASES, unpack(tickets))
  for i, ticket in ipairs(tickets) do
    if #leases < 2 * limit and tonumber(held_until[i] or 0) <= now_ms then
      claimed[#claimed + 1], claimed[#claimed + 2] = ticket, list[2 * i]
      leases[#leases + 1], leases[#leases + 2] = lease_end, ticket
    end
  end
  offset, page = offset + page, CHUNK
end
write('ZADD', EXPIRY_LEASES, leases)

local next_due = redis.call('ZRANGEBYSCORE', EXPIRY_DUE, '(' .. int(now_ms), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
return { claimed, next_due[2] and int(math.min(tonumber(next_due[2]) - now_ms, DAY)) or false }
