-- Renews, releases or parks rows that are held.
-- ARGV: now, owner, what (renew | release | park), microseconds (lease or park), route, then for each: id, sid, token.
-- Answers the ids that were held.

local owner, what, wait, route = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]

local ids = {}
for i = 6, #ARGV, 3 do ids[#ids + 1] = ARGV[i] end
local states = fields_of(STATE, ids)

local out, held = batch(), {}
for i, id in ipairs(ids) do
  local sid, token = ARGV[3 * i + 4], ARGV[3 * i + 5]
  local row, is_arrival = row_of(id, sid, states[i])
  if row and is_held(row, owner, token) then
    if is_arrival then
      out.forget_arrival(sid)
      out.wait(id, row)
    end
    if what == 'renew' then
      out.due(id, now + wait)
      if is_arrival then out.state(id, row) end
    else
      let_go(out, id, row, now + wait)
      if what == 'park' then
        row.parked = route
        out.park(id, row)
      end
      out.state(id, row)
    end
    held[#held + 1] = id
  end
end

out.write()
return held
