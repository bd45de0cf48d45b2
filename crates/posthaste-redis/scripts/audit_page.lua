-- Audit: one page of operators' actions, newest first.
-- ARGV: now; before (a stream id: only older entries are returned; empty for the first page); limit.

local before = ARGV[2] == '' and '+' or '(' .. ARGV[2]
return redis.call('XREVRANGE', AUDIT, before, '-', 'COUNT', ARGV[3])
