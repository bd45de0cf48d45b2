-- Decides a due ticket: stores its event, unless it was decided before.
-- ARGV: now; ticket; expires_at; cutoff (both in milliseconds; empty cutoff for now); then the event: id, body, delay
-- or lease in microseconds, owner, token. An empty id: a hook suppressed the event.
-- Returns the decision, and the stream id of the event if one was stored.

local ticket, expires_at, cutoff = ARGV[2], ARGV[3], tonumber(ARGV[4]) or now_ms

finish_begun(ticket)

if expires_at_of(ticket) ~= expires_at then
  -- The ticket has another expiry time, or none. The lease was for the old time and must not block the new one.
  redis.call('ZREM', EXPIRY_LEASES, ticket)
  return { 'not_due', false }
end
if tonumber(expires_at) > cutoff then return { 'not_due', false } end

if redis.call('ZSCORE', REVOKED, ticket) then return leave(ticket, 'suppressed_revoked') end
if redis.call('HGET', EXPIRED, ticket) == expires_at then return leave(ticket, 'already_enqueued') end

local sid = decide(ticket, 'expired', expires_at, 5)
if ARGV[5] == '' then return leave(ticket, 'suppressed_by_hook') end
return leave(ticket, sid and 'enqueued' or 'already_enqueued', sid)
