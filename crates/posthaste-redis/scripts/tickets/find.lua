-- Due tickets, oldest first. ARGV: now; limit. Returns a flat list of ticket and expiry time.

return redis.call('ZRANGEBYSCORE', EXPIRY_DUE, '-inf', int(now_ms), 'WITHSCORES', 'LIMIT', 0, ARGV[2])
