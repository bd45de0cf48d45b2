-- Gives rows that have just arrived their place in every index. ARGV: now, limit. Returns 1 if there may be more.

return index_arrivals(tonumber(ARGV[2])) and 1 or 0
