-- Tickets whose time has come, oldest first. ARGV: now, limit. Returns ticket and time of each, in one list.

return redis.call('ZRANGEBYSCORE', EXPIRY_DUE, '-inf', int(now_ms), 'WITHSCORES', 'LIMIT', 0, ARGV[2])
