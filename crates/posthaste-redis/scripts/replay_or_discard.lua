-- Replays or discards DEAD rows for an operator.
-- ARGV: now; what (replay | discard); forget_progress (1 | 0); actor; target; ids. Returns the number of rows changed.

local what, forget_progress, actor, target = ARGV[2], ARGV[3] == '1', ARGV[4], ARGV[5]

local ids = {}
for i = 6, #ARGV do ids[#ids + 1] = ARGV[i] end
local states = fields_of(STATES, ids)

local out, count = batch(), 0
for i, id in ipairs(ids) do
  local row = states[i] and read_state(states[i])
  if row and row.status == '3' then
    count = count + 1
    out.forget_ended(id, row.place, DEAD)
    if what == 'discard' then
      out.delete(id)
    else
      -- Reset every count that would make the event DEAD again at its first error.
      row.status, row.attempts, row.deferrals, row.lost = '0', '0', '0', '0'
      row.done_at, row.error, row.replays = '', '', more(row.replays)
      if forget_progress then row.progress = '' end
      out.state(id, state_text(row))
      out.due(id, NOW)
      out.wait(id, row.place)
    end
  end
end

out.write()
record_audit(actor, what, target, count)
return count
