-- Stores events outside a transaction.
-- ARGV: now; then for each event: id, body, delay or lease in microseconds, owner, token (both empty without a lease).
-- Returns the stream id of each event, or false where the id exists already.

local sids = {}
for i = 2, #ARGV, 5 do
  sids[#sids + 1] = enqueue(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4])
end
return sids
