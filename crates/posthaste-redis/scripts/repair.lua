-- Repair: completes what a failed script or a foreign program left incomplete. Scans one page of one shard. Safe
-- during live traffic, because it checks and repairs in one atomic step.
-- ARGV: now; what to scan (state | pending | entries | parked, in this order); cursor; page size.
-- Returns: 1, or 0 if nothing was scanned because there are too many arrivals (call again); the next cursor ("0" at the
-- end); the number of bodies without state and arrival; of members without a body; of rows in the wrong indexes.

local what, cursor, page = ARGV[2], ARGV[3], tonumber(ARGV[4])
local found_bodies, found_members, found_rows = 0, 0, 0

local out = batch()

-- A page of bodies ends after this many bytes: HSCAN returns the values with the names, and large replies block the
-- server.
local PAGE_BYTES = 1024 * 1024

-- Repairs a body without a state and an arrival. With a due time it was written by a foreign program (HSET entries,
-- ZADD pending) and keeps that time. Without one it is half of an enqueue that failed, and due immediately.
local function find_again(id)
  local due = redis.call('ZSCORE', PENDING, id)
  if not due then found_bodies = found_bodies + 1 end
  -- The arrival carries the delay as well: if this script fails, the arrival is what remains.
  local wait = math.max(tonumber(due or NOW) - now, 0)
  local place = place_of(redis.call('XADD', ARRIVALS, '*', 'i', id, 'd', int(wait)))
  out.state(id, new_state(place, ''))
  out.due(id, due or NOW)
  out.wait(id, place)
  out.forget_arrival(place)
end

-- Returns true if a row is in the indexes of its kind, and in no other.
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

-- Moves a row to the right indexes. If its due time is lost, it is due immediately.
local function put_right(id, row)
  if row.status == '?' then
    -- The state was edited and cannot be parsed, so the row gets a new place.
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

-- Deletes a row without a body: there is nothing to deliver.
local function forget(id, row)
  out.unpark(id, row)
  out.forget_pending(id, row.place)
  for _, index in ipairs({ DONE, DEAD, ARCHIVED }) do out.forget_ended(id, row.place, index) end
  out.delete(id)
  found_members = found_members + 1
end

-- The members of a ZSCAN reply, which alternates members and scores.
local function names(list)
  local ids = {}
  for i = 1, #list, 2 do ids[#ids + 1] = list[i] end
  return ids
end

-- One page of bodies: returns the ids and moves the cursor. COUNT 1 per step, because the size of a step is known only
-- afterwards.
local function scan_entries()
  local ids, is_known, bytes = {}, {}, 0
  for _ = 1, page do
    local scanned = redis.call('HSCAN', ENTRIES, cursor, 'COUNT', 1)
    for i = 1, #scanned[2], 2 do
      local id = scanned[2][i]
      bytes = bytes + #scanned[2][i + 1]
      -- HSCAN returns a name twice if the hash is being resized.
      if not is_known[id] then ids[#ids + 1], is_known[id] = id, true end
    end
    cursor = scanned[1]
    if cursor == '0' or #ids >= page or bytes >= PAGE_BYTES then break end
  end
  return ids
end

-- All arrivals are indexed first; otherwise their bodies would look like orphans.
if index_arrivals(CHUNK) then return { 0, cursor, 0, 0, 0 } end

if what == 'entries' then
  -- The earlier scan of `state` deleted states without a body. If there are as many states as bodies, every body has a
  -- state and nothing has to be scanned. This is nearly always the case.
  if redis.call('HLEN', ENTRIES) <= redis.call('HLEN', STATES) then return { 1, '0', 0, 0, 0 } end
  local ids = scan_entries()
  local states = fields_of(STATES, ids)
  for i, id in ipairs(ids) do
    if not states[i] then find_again(id) end
  end
elseif what == 'state' then
  local scanned = redis.call('HSCAN', STATES, cursor, 'COUNT', page)
  for i = 1, #scanned[2], 2 do
    local id, row = scanned[2][i], read_state(scanned[2][i + 1])
    if redis.call('HEXISTS', ENTRIES, id) == 0 then
      forget(id, row)
    elseif not is_well_placed(id, row) then
      put_right(id, row)
    end
  end
  cursor = scanned[1]
elseif what == 'pending' then
  local scanned = redis.call('ZSCAN', PENDING, cursor, 'COUNT', page)
  local ids = names(scanned[2])
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
  cursor = scanned[1]
else
  local scanned = redis.call('ZSCAN', PARKED, cursor, 'COUNT', page)
  for _, member in ipairs(names(scanned[2])) do
    local route, key = string.match(member, '^([^\t]*)\t(.*)$')
    local text = key and redis.call('HGET', STATES, id_of(key))
    local row = text and read_state(text)
    if not row or ends(row.status) or row.parked ~= route then
      write('ZREM', PARKED, { member })
      found_members = found_members + 1
    end
  end
  cursor = scanned[1]
end

out.write()
return { 1, cursor, found_bodies, found_members, found_rows }
