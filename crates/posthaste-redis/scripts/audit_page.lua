-- One page of what persons did, newest first. ARGV: now, before (a stream id, or nothing), limit.

local before = ARGV[2] == '' and '+' or '(' .. ARGV[2]
return redis.call('XREVRANGE', AUDIT, before, '-', 'COUNT', ARGV[3])
