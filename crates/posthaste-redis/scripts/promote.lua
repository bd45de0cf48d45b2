-- Gives rows that have just arrived their place in every index. ARGV: now, limit. Answers 1 if there may be more.

local _, more = promote(tonumber(ARGV[2]))
return more and 1 or 0
