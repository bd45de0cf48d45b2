-- Renews, starts, releases or parks rows that this owner holds.
-- `start` renews and counts the lease as lost; the settlement resets that count. So an event that kills its process
-- before it can be settled becomes a suspect.
-- ARGV: now; owner; what (renew | start | release | park); lease or park time in microseconds; route; then for each
-- row: id, place, token.
-- Returns the numbers of the rows that were held, counted from 1.

local owner, what, wait, route = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]

local ids = {}
for i = 6, #ARGV, 3 do ids[#ids + 1] = ARGV[i] end
local states = fields_of(STATES, ids)

local out, held = batch(), {}
for i, id in ipairs(ids) do
  local place, token = ARGV[3 * i + 4], ARGV[3 * i + 5]
  local text, is_arrival = state_of(id, place, states[i])
  local row = text and read_state(text)
  if row and is_held(row, place, owner, token) then
    if is_arrival then
      out.forget_arrival(place)
      out.wait(id, place)
    end
    if what == 'renew' or what == 'start' then
      out.due(id, int(now + wait))
      if what == 'start' then row.lost = more(row.lost) end
      if is_arrival or what == 'start' then out.state(id, state_text(row)) end
    else
      let_go(out, id, row, now + wait)
      if what == 'park' then
        row.parked, row.put_off = route, ''
        out.park(id, row)
      end
      out.state(id, state_text(row))
    end
    held[#held + 1] = i
  end
end

out.write()
return held
