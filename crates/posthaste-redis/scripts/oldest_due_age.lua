-- Age in microseconds of the oldest pending row that has been due at some time, or false. ARGV: now.
-- A row that waits for its first due time does not count: it is scheduled, not late.

-- LOOK: rows examined at most. PAGE: rows per read.
local LOOK, PAGE = 1000, 50

local function has_been_due(row, due)
  return due <= now or row.lease ~= '' or row.parked ~= '' or row.error ~= ''
    or row.attempts ~= '0' or row.deferrals ~= '0' or row.lost ~= '0'
end

local function age(place)
  return int(math.max(now - inserted_ms(place) * 1000, 0))
end

local start, looked = '-', 0
while looked < LOOK do
  local keys = redis.call('ZRANGEBYLEX', WAITING, start, '+', 'LIMIT', 0, PAGE)
  if #keys == 0 then break end
  local ids = {}
  for i, key in ipairs(keys) do ids[i] = id_of(key) end
  local states, scores = fields_of(STATES, ids), redis.call('ZMSCORE', PENDING, unpack(ids))
  for i = 1, #ids do
    local row = states[i] and read_state(states[i])
    if row and has_been_due(row, tonumber(scores[i] or 0)) then return age(row.place) end
  end
  start, looked = '(' .. keys[#keys], looked + #keys
end

-- More rows than LOOK are scheduled for later. The row that is due first is used instead: an approximation.
if looked >= LOOK then
  local id = redis.call('ZRANGEBYSCORE', PENDING, '-inf', NOW, 'LIMIT', 0, 1)[1]
  local state = id and redis.call('HGET', STATES, id)
  if state then return age(read_state(state).place) end
end

for _, arrival in ipairs(redis.call('XRANGE', ARRIVALS, '-', '+', 'COUNT', LOOK)) do
  local id, place, due, lease = read_arrival(arrival)
  if id and (due <= now or lease ~= '') then return age(place) end
end
return false
