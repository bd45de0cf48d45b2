-- Turns arrivals into indexed rows, oldest first. ARGV: now; limit. Returns 1 if there may be more, else 0.

return index_arrivals(tonumber(ARGV[2])) and 1 or 0
