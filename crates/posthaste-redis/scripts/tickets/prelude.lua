-- Stands between the prelude and every script about tickets that expire. Times are in milliseconds here.
--
-- A ticket is expired or revoked, and never both. The decision is one command: it notes in `begun` what was
-- decided, with all that is needed to carry it out. So the call after a script that failed in the middle
-- finishes it first, and no event is missing, and none is there that should not be.

local EXPIRY_TYPES = { 'zset', 'zset', 'hash', 'zset', 'hash', 'zset' }
local BEFORE = #KEYS - #EXPIRY_TYPES
for i, expected in ipairs(EXPIRY_TYPES) do
  local key = KEYS[BEFORE + i]
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= expected then
    return redis.error_reply('WRONGKEY ' .. key .. ' is a ' .. found .. ', not a ' .. expected)
  end
end

local EXPIRY_DUE, EXPIRY_LEASES, BEGUN, REVOKED, EXPIRED, EXPIRED_AT = unpack(KEYS, BEFORE + 1)

local now_ms = math.floor(now / 1000)

-- A foreign program may have written fractions; they do not count.
local function expires_at_of(ticket)
  local score = redis.call('ZSCORE', EXPIRY_DUE, ticket)
  return score and int(math.floor(tonumber(score)))
end

-- What was decided about a ticket. An expiry without its time would never be forgotten, so the time is first.
local function mark(ticket, decision, expires_at)
  if decision == 'revoked' then
    redis.call('ZADD', REVOKED, 'NX', int(now_ms), ticket)
  else
    redis.call('ZADD', EXPIRED_AT, int(now_ms), ticket)
    redis.call('HSET', EXPIRED, ticket, expires_at)
  end
end

-- Stores the event of a decision and marks the ticket; returns the event's sid, or false where the id
-- existed already.
local function carry_out(ticket, decision, expires_at, id, body, wait, owner, token)
  local sid = enqueue(id, body, wait, owner, token)
  if not sid and redis.call('HEXISTS', STATES, id) == 0 then
    -- Half of an enqueue may have failed too.
    redis.call('ZADD', PENDING, 'NX', int(now), id)
  end
  mark(ticket, decision, expires_at)
  redis.call('HDEL', BEGUN, ticket)
  return sid
end

-- Decides. The event is in ARGV from `first` on: id, body, delay or lease in microseconds, owner, token. An
-- empty id stands for an event that a hook left out.
local function decide(ticket, decision, expires_at, first)
  local id, body, wait, owner, token = unpack(ARGV, first, first + 4)
  if id == '' then
    mark(ticket, decision, expires_at)
    return false
  end
  -- No engine will know of the lease if this script fails.
  local later = token == '' and wait or '0'
  redis.call('HSET', BEGUN, ticket, table.concat({ decision, expires_at, id, later, body }, '\t'))
  return carry_out(ticket, decision, expires_at, id, body, wait, owner, token)
end

-- Carries out what was decided about a ticket before, if the script that did so failed.
local function finish_begun(ticket)
  local text = redis.call('HGET', BEGUN, ticket)
  if not text then return end
  local decision, expires_at, id, wait, body = string.match(text, '^(%a+)\t([^\t]*)\t([^\t]*)\t(%d+)\t(.*)$')
  if decision then
    carry_out(ticket, decision, expires_at, id, body, wait, '', '')
  else
    -- It was edited.
    redis.call('HDEL', BEGUN, ticket)
  end
end

-- Nothing is left to decide. The ticket is due until the very end, so that whatever failed is repeated.
local function leave(ticket, answer, sid)
  redis.call('ZREM', EXPIRY_LEASES, ticket)
  redis.call('ZREM', EXPIRY_DUE, ticket)
  return { answer, sid or false }
end
