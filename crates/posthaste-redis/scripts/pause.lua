-- Pauses or resumes a route. ARGV: now; what (pause | resume); route; actor. Returns 1 if that changed anything, else
-- 0.

local what, route, actor = ARGV[2], ARGV[3], ARGV[4]
local changed = redis.call(what == 'pause' and 'SADD' or 'SREM', CONTROL, route)
record_audit(actor, what, route, changed)
return changed
