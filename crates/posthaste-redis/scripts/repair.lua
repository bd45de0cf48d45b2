-- Finishes what a script that failed in the middle, or a foreign program, left half done. One page of a scan
-- over one shard; safe beside live traffic, because it looks and mends in one step.
-- ARGV: now, what to scan (entries | state | pending | parked), cursor, page.
-- Answers: whether it looked at all (or has to be asked again, because much has just arrived), the next
-- cursor ("0" at the end), bodies that nothing led to, members without a body, rows in the wrong indexes.

local what, cursor, page = ARGV[2], ARGV[3], tonumber(ARGV[4])
local found_bodies, found_members, found_rows = 0, 0, 0

local INDEXES = {
  { PENDING, WAITING }, ['1'] = { DONE, DONE_SEQ }, ['3'] = { DEAD, DEAD_SEQ }, ['4'] = { ARCHIVED, ARCHIVED_SEQ },
}

local out = batch()

-- A body that no state and no arrival leads to: half of an enqueue. It is due now.
local function find_again(id)
  local sid = redis.call('XADD', ARRIVALS, '*', 'i', id)
  local _, row = read_arrival({ sid, { 'i', id } })
  out.state(id, row)
  out.due(id, now)
  out.wait(id, row)
  out.forget_arrival(sid)
  found_bodies = found_bodies + 1
end

-- Whether a row stands in the indexes of its kind, and in no other.
local function is_well_placed(id, row)
  local own = INDEXES[row.status] or INDEXES[1]
  for _, kind in ipairs({ 1, '1', '3', '4' }) do
    local pair = INDEXES[kind]
    local by_time = redis.call('ZSCORE', pair[1], id)
    local by_seq = redis.call('ZSCORE', pair[2], seq_key(row.sid, id))
    if pair == own then
      if not by_time or not by_seq then return false end
    elseif by_time or by_seq then
      return false
    end
  end
  return row.parked == '' or redis.call('ZSCORE', PARKED, parked_key(row, id)) ~= false
end

-- Puts a row where it belongs. What it waited for is not known any more, so that it is due now.
local function place(id, row)
  if row.sid == '0-0' then
    -- Somebody edited the state so that it cannot be read: a new place in the order.
    row.sid = redis.call('XADD', ARRIVALS, '*', 'i', id)
    out.forget_arrival(row.sid)
    out.state(id, row)
  end
  local own = INDEXES[row.status] or INDEXES[1]
  for _, kind in ipairs({ '1', '3', '4' }) do
    local pair = INDEXES[kind]
    if pair ~= own then out.forget_ended(id, row, pair[1], pair[2]) end
  end
  if is_terminal(row) then
    if row.done_at == '' then
      row.done_at = int(now)
      out.state(id, row)
    end
    out.ended(id, row, own[1], own[2])
    out.forget_pending(id, row)
  else
    out.due(id, redis.call('ZSCORE', PENDING, id) or now)
    out.wait(id, row)
    if row.parked ~= '' then out.park(id, row) end
  end
  found_rows = found_rows + 1
end

-- A row without a body: there is nothing to deliver.
local function forget(id, row)
  out.unpark(id, row)
  out.forget_pending(id, row)
  for _, kind in ipairs({ '1', '3', '4' }) do
    out.forget_ended(id, row, INDEXES[kind][1], INDEXES[kind][2])
  end
  out.delete(id)
  found_members = found_members + 1
end

-- Every second value of a scan, beginning with the first.
local function names(list)
  local ids = {}
  for i = 1, #list, 2 do ids[#ids + 1] = list[i] end
  return ids
end

-- An arrival is no orphan: everything that has arrived gets its place first.
local _, more = promote(CHUNK)
if more then return { 0, cursor, 0, 0, 0 } end

if what == 'entries' then
  local answer = redis.call('HSCAN', ENTRIES, cursor, 'COUNT', page)
  local ids = names(answer[2])
  local states = fields_of(STATE, ids)
  for i, id in ipairs(ids) do
    if not states[i] then find_again(id) end
  end
  cursor = answer[1]
elseif what == 'state' then
  local answer = redis.call('HSCAN', STATE, cursor, 'COUNT', page)
  for i = 1, #answer[2], 2 do
    local id, row = answer[2][i], read_state(answer[2][i + 1])
    if redis.call('HEXISTS', ENTRIES, id) == 0 then
      forget(id, row)
    elseif not is_well_placed(id, row) then
      place(id, row)
    end
  end
  cursor = answer[1]
elseif what == 'pending' then
  local answer = redis.call('ZSCAN', PENDING, cursor, 'COUNT', page)
  local ids = names(answer[2])
  local states = fields_of(STATE, ids)
  for i, id in ipairs(ids) do
    if not states[i] and redis.call('HEXISTS', ENTRIES, id) == 0 then
      write('ZREM', PENDING, { id })
      found_members = found_members + 1
    end
  end
  cursor = answer[1]
else
  local answer = redis.call('ZSCAN', PARKED, cursor, 'COUNT', page)
  for _, member in ipairs(names(answer[2])) do
    local route, key = string.match(member, '^([^\t]*)\t(.*)$')
    local text = key and redis.call('HGET', STATE, id_of(key))
    local row = text and read_state(text)
    if not row or is_terminal(row) or row.parked ~= route then
      write('ZREM', PARKED, { member })
      found_members = found_members + 1
    end
  end
  cursor = answer[1]
end

out.write()
return { 1, cursor, found_bodies, found_members, found_rows }
