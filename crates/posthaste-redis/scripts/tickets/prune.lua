-- Forgets old decisions and expired leases, and completes decisions that a failed script left in `expiry-begun`.
-- ARGV: now; retention of decisions in milliseconds; limit (per kind).
-- Returns the number of decisions that were forgotten.

local before, limit = int(now_ms - tonumber(ARGV[2])), tonumber(ARGV[3])

local function oldest(key, last)
  return redis.call('ZRANGEBYSCORE', key, '-inf', last, 'LIMIT', 0, limit)
end

for _, ticket in ipairs(redis.call('HRANDFIELD', BEGUN, limit)) do finish_begun(ticket) end

write('ZREM', EXPIRY_LEASES, oldest(EXPIRY_LEASES, int(now_ms)))

-- If a revoked ticket was recorded as due again, that entry goes too: once the revocation is forgotten, it would
-- expire.
local revoked = oldest(REVOKED, before)
write('ZREM', EXPIRY_DUE, revoked)
write('ZREM', REVOKED, revoked)

local expired = oldest(EXPIRED_AT, before)
write('HDEL', EXPIRED, expired)
write('ZREM', EXPIRED_AT, expired)

return #revoked + #expired
