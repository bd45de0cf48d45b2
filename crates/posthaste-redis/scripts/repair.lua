-- Finishes what a script that failed in the middle, or a foreign program, left half done. One page of a scan
-- over one shard; safe beside live traffic, because it looks and repairs in one step.
-- ARGV: now, what to scan (state | pending | entries | parked, in this order), cursor, page.
-- Returns: whether it looked at all (or has to be asked again, because much has just arrived), the next
-- cursor ("0" at the end), bodies that nothing led to, members without a body, rows in the wrong indexes.

local what, cursor, page = ARGV[2], ARGV[3], tonumber(ARGV[4])
local found_bodies, found_members, found_rows = 0, 0, 0

local out = batch()

-- A page of bodies ends behind so many bytes: Redis shows the names in a hash with their values, and large ones
-- keep others waiting.
local PAGE_BYTES = 1024 * 1024

-- A body without a state and an arrival. One that is due at some time was written by a foreign program with the
-- two commands of the document, and keeps that time. To any other nothing leads: it is half of an enqueue, and due
-- now.
local function find_again(id)
  local due = redis.call('ZSCORE', PENDING, id)
  if not due then found_bodies = found_bodies + 1 end
  -- The arrival says it too: it is what is left if this script fails.
  local wait = math.max(tonumber(due or NOW) - now, 0)
  local place = place_of(redis.call('XADD', ARRIVALS, '*', 'i', id, 'd', int(wait)))
  out.state(id, new_state(place, ''))
  out.due(id, due or NOW)
  out.wait(id, place)
  out.forget_arrival(place)
end

-- Whether a row stands in the indexes of its kind, and in no other.
local function is_well_placed(id, row)
  local key = seq_key(row.place, id)
  local own = ENDED[row.status] or WAITING
  for _, index in ipairs({ WAITING, DONE, DEAD, ARCHIVED }) do
    local is_there = redis.call('ZSCORE', index, key) ~= false
    if is_there ~= (index == own) then return false end
  end
  if (redis.call('ZSCORE', PENDING, id) ~= false) ~= (own == WAITING) then return false end
  return row.parked == '' or redis.call('ZSCORE', PARKED, parked_key(row, id)) ~= false
end

-- Puts a row where it belongs. When it was due is not known any more, so that it is due now.
local function put_right(id, row)
  if row.status == '?' then
    -- The state was edited so that it cannot be read: a new place in the order.
    row.place = place_of(redis.call('XADD', ARRIVALS, '*', 'i', id))
    out.forget_arrival(row.place)
    out.state(id, state_text(row))
  end
  local own = ENDED[row.status]
  for _, index in ipairs({ DONE, DEAD, ARCHIVED }) do
    if index ~= own then out.forget_ended(id, row.place, index) end
  end
  if own then
    if row.done_at == '' then
      row.done_at = NOW
      out.state(id, state_text(row))
    end
    out.ended(id, row.place, own)
    out.forget_pending(id, row.place)
  else
    out.due(id, redis.call('ZSCORE', PENDING, id) or NOW)
    out.wait(id, row.place)
    if row.parked ~= '' then out.park(id, row) end
  end
  found_rows = found_rows + 1
end

-- A row without a body: there is nothing to deliver.
local function forget(id, row)
  out.unpark(id, row)
  out.forget_pending(id, row.place)
  for _, index in ipairs({ DONE, DEAD, ARCHIVED }) do out.forget_ended(id, row.place, index) end
  out.delete(id)
  found_members = found_members + 1
end

-- Every second value of a scan, beginning with the first.
local function names(list)
  local ids = {}
  for i = 1, #list, 2 do ids[#ids + 1] = list[i] end
  return ids
end

-- One page of bodies: the ids, and where to go on. Step by step, because how large a step is shows only then.
local function scan_entries()
  local ids, is_known, bytes = {}, {}, 0
  for _ = 1, page do
    local answer = redis.call('HSCAN', ENTRIES, cursor, 'COUNT', 1)
    for i = 1, #answer[2], 2 do
      local id = answer[2][i]
      bytes = bytes + #answer[2][i + 1]
      -- A hash that grows or shrinks shows some names twice.
      if not is_known[id] then ids[#ids + 1], is_known[id] = id, true end
    end
    cursor = answer[1]
    if cursor == '0' or #ids >= page or bytes >= PAGE_BYTES then break end
  end
  return ids
end

-- An arrival is no orphan: everything that has arrived gets its place first.
if index_arrivals(CHUNK) then return { 0, cursor, 0, 0, 0 } end

if what == 'entries' then
  -- States without a body are gone by now, so that as many of both say that every body has a state. Nothing has to
  -- be read then, and that is nearly always so.
  if redis.call('HLEN', ENTRIES) <= redis.call('HLEN', STATES) then return { 1, '0', 0, 0, 0 } end
  local ids = scan_entries()
  local states = fields_of(STATES, ids)
  for i, id in ipairs(ids) do
    if not states[i] then find_again(id) end
  end
elseif what == 'state' then
  local answer = redis.call('HSCAN', STATES, cursor, 'COUNT', page)
  for i = 1, #answer[2], 2 do
    local id, row = answer[2][i], read_state(answer[2][i + 1])
    if redis.call('HEXISTS', ENTRIES, id) == 0 then
      forget(id, row)
    elseif not is_well_placed(id, row) then
      put_right(id, row)
    end
  end
  cursor = answer[1]
elseif what == 'pending' then
  local answer = redis.call('ZSCAN', PENDING, cursor, 'COUNT', page)
  local ids = names(answer[2])
  local states = fields_of(STATES, ids)
  for i, id in ipairs(ids) do
    if not states[i] then
      if redis.call('HEXISTS', ENTRIES, id) == 1 then
        find_again(id)
      else
        write('ZREM', PENDING, { id })
        found_members = found_members + 1
      end
    end
  end
  cursor = answer[1]
else
  local answer = redis.call('ZSCAN', PARKED, cursor, 'COUNT', page)
  for _, member in ipairs(names(answer[2])) do
    local route, key = string.match(member, '^([^\t]*)\t(.*)$')
    local text = key and redis.call('HGET', STATES, id_of(key))
    local row = text and read_state(text)
    if not row or ends(row.status) or row.parked ~= route then
      write('ZREM', PARKED, { member })
      found_members = found_members + 1
    end
  end
  cursor = answer[1]
end

out.write()
return { 1, cursor, found_bodies, found_members, found_rows }
