-- Stores events on their own, without a transaction around them.
-- ARGV: now, then for each: id, body, delay or lease in microseconds, owner, token (both empty without lease).
-- Returns the sid of each, or nothing where the id existed already.

local sids = {}
for i = 2, #ARGV, 5 do
  sids[#sids + 1] = enqueue(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4])
end
return sids
