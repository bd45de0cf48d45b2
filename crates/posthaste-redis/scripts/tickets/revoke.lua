-- Revokes a ticket, unless it has expired.
-- ARGV: now; ticket; then the event: id, body, delay or lease in microseconds, owner, token.
-- Returns the result, and the stream id of the event if one was stored.

local ticket = ARGV[2]

finish_begun(ticket)

if redis.call('ZSCORE', REVOKED, ticket) then return leave(ticket, 'already_revoked') end

-- An expired ticket may have been recorded with a new expiry time since. Then it can be revoked.
local expired, expires_at = redis.call('HGET', EXPIRED, ticket), expires_at_of(ticket)
if expired and (not expires_at or expires_at == expired) then return { 'already_expired', false } end

return leave(ticket, 'revoked', decide(ticket, 'revoked', '', 3))
