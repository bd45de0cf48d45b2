-- Settle: writes the outcomes of deliveries.
-- ARGV: now; owner; on_done (keep | delete | archive); suspect_after; the number of rows that were simply delivered; id
-- and place of each of these; then VALUES values for each other row: id, place, token, verdict, destinations that have
-- the event, text, number, list, limit. The meaning of the last four is documented at each verdict.
-- Returns: for each delivered row 1, or 0 if nothing changed; for each other row a text: `stale`, `done`,
-- `retry attempts delay`, `wait delay` or `dead attempts`. Delays are in microseconds.

local owner, on_done, suspect_after, delivered_rows = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
-- ARGV values per row that was not simply delivered.
local VALUES = 9

local out = batch()

local DONE_STATUS = on_done == 'archive' and '4' or '1'
-- The rest of the state of a row that was delivered at the first attempt.
local DELIVERED = '0\t0\t0\t0\t' .. NOW .. '\t\t\t\t'

local function done(id, text, place, rest)
  if on_done == 'delete' then
    if rest ~= UNTOUCHED then out.unpark(id, read_state(text)) end
    out.forget_pending(id, place)
    out.delete(id)
  elseif rest ~= UNTOUCHED then
    finish(out, id, read_state(text), DONE_STATUS, '')
  else
    out.state(id, DONE_STATUS .. '\t' .. place .. '\t\t' .. DELIVERED)
    out.ended(id, place, ENDED[DONE_STATUS])
    out.forget_pending(id, place)
  end
end

-- The delay after `attempts` failed attempts. The last one of the list applies to all further attempts.
local function pick(delays, attempts)
  local count, last = 0, '0'
  for delay in string.gmatch(delays, '%d+') do
    count, last = count + 1, delay
    if count == attempts then break end
  end
  return last
end

-- Adds destinations to `progress`. Names are escaped and contain no comma.
local function with_progress(progress, delivered)
  for name in string.gmatch(delivered, '[^,]+') do
    if not string.find(',' .. progress .. ',', ',' .. name .. ',', 1, true) then
      progress = progress == '' and name or progress .. ',' .. name
    end
  end
  return progress
end

local function attempts_of(row)
  return math.max(tonumber(row.attempts) or 0, 0)
end

-- Releases the row; it is due after the delay.
local function put_back(id, row, delay, lost)
  row.lost = int(lost)
  let_go(out, id, row, now + tonumber(delay))
end

local verdicts = {}

function verdicts.done(id, row)
  local text = state_text(row)
  local _, place, _, rest = split_state(text)
  done(id, text, place, rest)
  return 'done'
end

-- failed. text: the error; number: the attempt at which the row becomes DEAD; list: the delays.
function verdicts.failed(id, row, text, number, list)
  row.attempts = more(attempts_of(row))
  local attempts = tonumber(row.attempts)
  if attempts >= tonumber(number) then
    finish(out, id, row, '3', text)
    return 'dead ' .. row.attempts
  end
  local delay = pick(list, attempts)
  put_back(id, row, delay, 0)
  row.status, row.error, row.put_off = '2', text, ''
  out.state(id, state_text(row))
  return 'retry ' .. row.attempts .. ' ' .. delay
end

-- deferred. number: the delay.
function verdicts.deferred(id, row, _, number)
  put_back(id, row, number, 0)
  row.status, row.deferrals, row.put_off = '0', more(row.deferrals), ''
  out.state(id, state_text(row))
  return 'wait ' .. number
end

-- dead. text: the reason.
function verdicts.dead(id, row, text)
  finish(out, id, row, '3', text)
  return 'dead ' .. int(attempts_of(row))
end

-- Puts a row off for at most `limit` microseconds since it was first put off. If the limits differ, the longest
-- applies.
-- Returns the new `put_off` text, or false if the time is over.
local function put_off(row, limit)
  local since, longest = string.match(row.put_off, '^(%d+) (%d+)$')
  since, longest = tonumber(since) or now, math.max(tonumber(longest) or 0, tonumber(limit))
  return now - since < longest and int(since) .. ' ' .. int(longest)
end

-- unreachable. text: the error; number: the delay; list: the route to park the row for, or empty; limit: how long it
-- may be put off in total, or empty for no limit.
function verdicts.unreachable(id, row, text, number, list, limit)
  local put_off_text = limit == '' and '' or put_off(row, limit)
  if not put_off_text then return verdicts.dead(id, row, text) end
  -- The event was not delivered, so the start counted for a suspect is taken back. Other lost leases still count.
  local lost = tonumber(row.lost) or 0
  put_back(id, row, number, lost > suspect_after and lost - 1 or lost)
  row.error, row.parked, row.put_off = text, list, put_off_text
  if list ~= '' then out.park(id, row) end
  out.state(id, state_text(row))
  return 'wait ' .. number
end

-- Delivery is a fact whichever engine reports it. So the lease is not checked, only that this row is still pending.
local function settle_delivered()
  local ids, results = {}, {}
  for i = 1, delivered_rows do ids[i] = ARGV[2 * i + 4] end
  local states = fields_of(STATES, ids)
  for i, id in ipairs(ids) do
    local place = ARGV[2 * i + 5]
    local text, is_arrival = state_of(id, place, states[i])
    local status, own_place, _, rest = split_state(text or '1\t\t\t')
    results[i] = (ends(status) or not is_at(own_place, place)) and 0 or 1
    if results[i] == 1 then
      if is_arrival then out.forget_arrival(place) end
      done(id, text, own_place, rest)
    end
  end
  return results
end

local function settle_others()
  local first, ids, results = 6 + 2 * delivered_rows, {}, {}
  for i = first, #ARGV, VALUES do ids[#ids + 1] = ARGV[i] end
  local states = fields_of(STATES, ids)
  for i, id in ipairs(ids) do
    local at = first + VALUES * (i - 1)
    local place, token, verdict, delivered = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
    local text, is_arrival = state_of(id, place, states[i])
    local row, result = text and read_state(text), 'stale'
    local is_delivered = row and verdict == 'done' and not ends(row.status) and is_at(row.place, place)
    if is_delivered or row and is_held(row, place, owner, token) then
      if is_arrival then
        out.forget_arrival(place)
        -- A delivered row is never added to `waiting`: a script that fails would leave it there without a state.
        if verdict ~= 'done' then out.wait(id, place) end
      end
      row.progress = with_progress(row.progress, delivered)
      result = verdicts[verdict](id, row, unpack(ARGV, at + 5, at + 8))
    end
    results[i] = result
  end
  return results
end

local results = { settle_delivered(), settle_others() }
out.write()
return results
