-- Makes rows due that are parked for a route. ARGV: now; route; limit. Returns the number of rows.
-- `\t` ends the route in a member and `\n` is the next byte, so the range contains exactly the rows of this route.

local route, limit = ARGV[2], tonumber(ARGV[3])
local keys = redis.call('ZRANGEBYLEX', PARKED, '[' .. route .. '\t', '(' .. route .. '\n', 'LIMIT', 0, limit)

local ids = {}
for i, key in ipairs(keys) do ids[i] = id_of(string.sub(key, #route + 2)) end
local states = fields_of(STATES, ids)

local out, count, stale = batch(), 0, {}
for i, id in ipairs(ids) do
  local row = states[i] and read_state(states[i])
  if row and row.parked == route and not ends(row.status) then
    row.put_off = ''
    let_go(out, id, row, now)
    out.state(id, state_text(row))
    count = count + 1
  else
    stale[#stale + 1] = keys[i]
  end
end

out.write()
write('ZREM', PARKED, stale)
return count
