-- Forgets old decisions and lapsed leases, and finishes decisions whose caller did not come back.
-- ARGV: now, how long a decision is remembered, limit (of each kind).
-- Returns how many decisions were forgotten.

local before, limit = int(now_ms - tonumber(ARGV[2])), tonumber(ARGV[3])

local function oldest(key, last)
  return redis.call('ZRANGEBYSCORE', key, '-inf', last, 'LIMIT', 0, limit)
end

for _, ticket in ipairs(redis.call('HRANDFIELD', BEGUN, limit)) do finish_begun(ticket) end

write('ZREM', EXPIRY_LEASES, oldest(EXPIRY_LEASES, int(now_ms)))

-- A revoked ticket that was recorded to expire must not do so when the revocation is forgotten.
local revoked = oldest(REVOKED, before)
write('ZREM', EXPIRY_DUE, revoked)
write('ZREM', REVOKED, revoked)

local expired = oldest(EXPIRED_AT, before)
write('HDEL', EXPIRED, expired)
write('ZREM', EXPIRED_AT, expired)

return #revoked + #expired
