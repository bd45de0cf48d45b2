-- Prelude of all scripts about tickets, behind the general prelude. Times are in milliseconds here.
--
--   expiry-due     zset  tickets by expiry time
--   expiry-leases  zset  tickets that a worker holds, by the end of its lease
--   expiry-begun   hash  ticket -> decision that is not carried out yet
--   revoked        zset  revoked tickets, by the time of the revocation
--   expired        hash  ticket -> the expiry time that was decided
--   expired-at     zset  expired tickets, by the time of the decision
--
-- A ticket expires or is revoked, never both. Redis does not undo what a script wrote before it failed, so the decision
-- is one command: it writes to `expiry-begun` what was decided and everything needed to carry it out. The next call
-- about this ticket completes it first. So no event is lost, and none is stored that contradicts the decision.

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

-- The expiry time of a ticket, or nil. A foreign program may have written fractions of a millisecond; they are cut off.
local function expires_at_of(ticket)
  local score = redis.call('ZSCORE', EXPIRY_DUE, ticket)
  return score and int(math.floor(tonumber(score)))
end

-- Records the decision about a ticket. `expired-at` is written first: an entry of `expired` without one would never be
-- pruned.
local function mark(ticket, decision, expires_at)
  if decision == 'revoked' then
    redis.call('ZADD', REVOKED, 'NX', int(now_ms), ticket)
  else
    redis.call('ZADD', EXPIRED_AT, int(now_ms), ticket)
    redis.call('HSET', EXPIRED, ticket, expires_at)
  end
end

-- Stores the event of a decision and marks the ticket. Returns the event's stream id, or false if the id exists
-- already.
local function carry_out(ticket, decision, expires_at, id, body, wait, owner, token)
  local sid = enqueue(id, body, wait, owner, token)
  if not sid and redis.call('HEXISTS', STATES, id) == 0 then
    -- The enqueue itself may have failed after the body. Make the event due.
    redis.call('ZADD', PENDING, 'NX', int(now), id)
  end
  mark(ticket, decision, expires_at)
  redis.call('HDEL', BEGUN, ticket)
  return sid
end

-- Decides. The event is in ARGV from `first` on: id, body, delay or lease in microseconds, owner, token. An empty id: a
-- hook suppressed the event.
local function decide(ticket, decision, expires_at, first)
  local id, body, wait, owner, token = unpack(ARGV, first, first + 4)
  if id == '' then
    mark(ticket, decision, expires_at)
    return false
  end
  -- The noted event has no lease: if this script fails, its engine does not know that it holds one.
  local later = token == '' and wait or '0'
  redis.call('HSET', BEGUN, ticket, table.concat({ decision, expires_at, id, later, body }, '\t'))
  return carry_out(ticket, decision, expires_at, id, body, wait, owner, token)
end

-- Carries out an earlier decision about this ticket, if the script that made it failed.
local function finish_begun(ticket)
  local text = redis.call('HGET', BEGUN, ticket)
  if not text then return end
  local decision, expires_at, id, wait, body = string.match(text, '^(%a+)\t([^\t]*)\t([^\t]*)\t(%d+)\t(.*)$')
  if decision then
    carry_out(ticket, decision, expires_at, id, body, wait, '', '')
  else
    -- The note was edited and cannot be parsed.
    redis.call('HDEL', BEGUN, ticket)
  end
end

-- Removes a decided ticket. This comes last, so a ticket whose decision failed is found again.
local function leave(ticket, outcome, sid)
  redis.call('ZREM', EXPIRY_LEASES, ticket)
  redis.call('ZREM', EXPIRY_DUE, ticket)
  return { outcome, sid or false }
end
