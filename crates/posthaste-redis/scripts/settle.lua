-- Writes outcomes back.
-- ARGV: now, owner, on_done (keep | delete | archive), then for each: id, sid, token, verdict, the
-- destinations that have it, text, number, list. What the last three mean stands with each verdict.
-- Answers one text for each: `stale`, `done`, `retry attempts delay`, `wait delay` or `dead attempts`.

local owner, on_done = ARGV[2], ARGV[3]
local MAX_ATTEMPTS = 4294967295

-- The delay after this many failed attempts; the last one serves all further attempts.
local function pick(delays, attempts)
  local count, last = 0, '0'
  for delay in string.gmatch(delays, '%d+') do
    count, last = count + 1, delay
    if count == attempts then break end
  end
  return last
end

-- Names are escaped, so that a comma stands only between two.
local function with_progress(progress, delivered)
  for name in string.gmatch(delivered, '[^,]+') do
    if not string.find(',' .. progress .. ',', ',' .. name .. ',', 1, true) then
      progress = progress == '' and name or progress .. ',' .. name
    end
  end
  return progress
end

local out = batch()

local function done(id, row)
  if on_done == 'delete' then
    out.unpark(id, row)
    out.forget_pending(id, row)
    out.delete(id)
  else
    finish(out, id, row, on_done == 'archive' and '4' or '1', '')
  end
  return 'done'
end

local function attempts_of(row)
  return math.max(tonumber(row.attempts) or 0, 0)
end

local verdicts = {}

-- text: the error. number: the attempt at which the row dies. list: the delays.
function verdicts.failed(id, row, text, number, list)
  local attempts = math.min(attempts_of(row) + 1, MAX_ATTEMPTS)
  row.attempts = int(attempts)
  if attempts >= tonumber(number) then
    finish(out, id, row, '3', text)
    return 'dead ' .. row.attempts
  end
  local delay = pick(list, attempts)
  let_go(out, id, row, now + tonumber(delay))
  row.status, row.error = '2', text
  out.state(id, row)
  return 'retry ' .. row.attempts .. ' ' .. delay
end

-- number: the delay.
function verdicts.deferred(id, row, _, number)
  let_go(out, id, row, now + tonumber(number))
  row.status, row.deferrals = '0', int(math.min(tonumber(row.deferrals) + 1, MAX_ATTEMPTS))
  out.state(id, row)
  return 'wait ' .. number
end

-- text: the reason.
function verdicts.dead(id, row, text)
  finish(out, id, row, '3', text)
  return 'dead ' .. int(attempts_of(row))
end

-- text: the error. number: the delay. list: the route to park it for, or nothing.
function verdicts.unreachable(id, row, text, number, list)
  let_go(out, id, row, now + tonumber(number))
  row.error, row.parked = text, list
  if list ~= '' then out.park(id, row) end
  out.state(id, row)
  return 'wait ' .. number
end

local ids = {}
for i = 4, #ARGV, 8 do ids[#ids + 1] = ARGV[i] end
local states = fields_of(STATE, ids)

local answers = {}
for i, id in ipairs(ids) do
  local at = 8 * i - 4
  local sid, token, verdict, delivered = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local row, is_arrival = row_of(id, sid, states[i])
  local answer = 'stale'
  -- "Delivered" is a fact, whoever brings it, as long as the row is pending.
  if row and not is_terminal(row) and (verdict == 'done' or is_held(row, owner, token)) then
    if is_arrival then
      out.forget_arrival(sid)
      if verdict ~= 'done' then out.wait(id, row) end
    end
    if delivered ~= '' then row.progress = with_progress(row.progress, delivered) end
    if verdict == 'done' then
      answer = done(id, row)
    else
      answer = verdicts[verdict](id, row, ARGV[at + 5], ARGV[at + 6], ARGV[at + 7])
    end
  end
  answers[i] = answer
end

out.write()
return answers
