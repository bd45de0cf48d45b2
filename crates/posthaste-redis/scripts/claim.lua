-- Leases due rows to one owner.
-- ARGV: now, owner, token, lease, limit, skip_recent, order (due | seq), suspect_after, max_bytes, whatever (1 if
-- the first row is wanted whatever its size, or 0), look (1 to look at routes, or 0), max_parked_names.
-- Returns: now; id, due time, state and body of each row, one after another; how many orphans were skipped; how
-- large the first row is for which there was no room, or 0; the routes that are paused; those that rows are parked
-- for.

local owner, token, lease, limit = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local skip_recent, order, suspect_after = tonumber(ARGV[6]), ARGV[7], tonumber(ARGV[8])
local max_bytes, is_whatever, is_look = tonumber(ARGV[9]), ARGV[10] == '1', ARGV[11] == '1'
local max_parked_names = tonumber(ARGV[12])
local LOOK = 10000
-- Of what has just arrived at least so many are looked at, because some may have a delay.
local LOOK_AHEAD = 20
-- So many bodies are read at once.
local BODIES = 50

-- One step into the index for each name, however many rows are parked for it.
local function parked_names()
  local names, start = {}, '-'
  while #names < max_parked_names do
    local key = redis.call('ZRANGEBYLEX', PARKED, start, '+', 'LIMIT', 0, 1)[1]
    if not key then break end
    local name = string.match(key, '^[^\t]*')
    names[#names + 1], start = name, '(' .. name .. '\n'
  end
  return names
end

local reply, orphans, paused, parked = {}, 0, {}, {}
if is_look then paused, parked = redis.call('SMEMBERS', CONTROL), parked_names() end

local function whole_answer(too_large)
  -- A server that only reads would answer that nothing is due for as long as it hears of nothing new; this it
  -- refuses, although nothing has this id. It stands last: after a first write Redis lets a script go on that has
  -- no memory for it.
  if is_look then redis.call('XDEL', ARRIVALS, '0-0') end
  return { NOW, reply, orphans, too_large, paused, parked }
end

if limit == 0 then return whole_answer(0) end

local LEASE, LEASE_END = lease_text(token, owner, NOW), int(now + lease)
local newest_ms = math.floor((now - skip_recent) / 1000)
local out = batch()

-- Due rows among those that wait, as lists side by side: a table for each would cost more than all the rest.
local ids, dues, states, n = {}, {}, {}, 0

local function add(id, due, state)
  n = n + 1
  ids[n], dues[n], states[n] = id, due, state
end

local function is_settled_in(place)
  return skip_recent == 0 or inserted_ms(place) <= newest_ms
end

-- A member that has neither a state nor an arrival was written by a foreign program with the two commands of the
-- document: it gets its place in the order now.
local has_stamped = false

local function stamp(id)
  has_stamped = true
  local place = place_of(redis.call('XADD', ARRIVALS, '*', 'i', id))
  local state = new_state(place, '')
  out.state(id, state)
  out.wait(id, place)
  out.forget_arrival(place)
  return state
end

local function due_page(offset)
  return redis.call('ZRANGEBYSCORE', PENDING, '-inf', NOW, 'WITHSCORES', 'LIMIT', offset, limit)
end

-- Adds rows until they and the arrivals that were read are enough. No arrival is left that came before
-- `unread_from`. Returns whether one stands in the way that was not read.
local function add_due(first_page, arrived, unread_from)
  local offset, list, enough, is_unread = 0, first_page, 0, false
  while enough < limit and offset < LOOK do
    local members = {}
    for i = 1, #list, 2 do members[#members + 1] = list[i] end
    local found = fields_of(STATES, members)
    for i, id in ipairs(members) do
      local due, state = tonumber(list[2 * i]), found[i]
      if not state and arrived[id] then
        -- It is in the index already, and its arrival says more.
        enough = enough + 1
      elseif not state and due >= unread_from then
        -- Nothing is due before it arrived: this may be an arrival.
        is_unread = true
      else
        state = state or stamp(id)
        local status, place = split_state(state)
        if ends(status) then
          out.forget_pending(id, place)
        elseif is_settled_in(place) then
          add(id, due, state)
          enough = enough + 1
        end
      end
    end
    if is_unread or #members < limit then break end
    offset = offset + limit
    list = due_page(offset)
  end
  return is_unread and enough < limit
end

-- If enough rows wait that are older than everything that has just arrived: when the first of that came.
local function arrivals_behind(page)
  if #page < 2 * limit or skip_recent > 0 then return nil end
  local first = redis.call('XRANGE', ARRIVALS, '-', '+', 'COUNT', 1)[1]
  local at = first and inserted_ms(first[1]) * 1000 or math.huge
  -- One that is due in the same millisecond may be the arrival itself.
  return tonumber(page[#page]) < at and at or nil
end

-- By insertion, and never past a row that is on lease.
local function add_in_order()
  index_arrivals(math.max(limit, CHUNK))
  local start, looked = '-', 0
  while looked < LOOK do
    local keys = redis.call('ZRANGEBYLEX', WAITING, start, '+', 'LIMIT', 0, 100)
    if #keys == 0 then return end
    local page = {}
    for i, key in ipairs(keys) do page[i] = id_of(key) end
    local found, scores = fields_of(STATES, page), redis.call('ZMSCORE', PENDING, unpack(page))
    for i, id in ipairs(page) do
      local state, due = found[i], tonumber(scores[i] or nil)
      if state and due then
        local _, place, held = split_state(state)
        if due > now then
          if held ~= '' then return end
        elseif is_settled_in(place) then
          add(id, due, state)
          if n == limit then return end
        end
      end
    end
    start, looked = '(' .. keys[#keys], looked + #keys
  end
end

-- What is leased: places in the lists of due rows, and behind them in those of arrivals.
local fresh, forget = { ids = {}, dues = {}, places = {}, leases = {}, set = {} }, nil

local function read_arrivals(count)
  local _
  fresh, _, forget = arrivals(count, skip_recent > 0 and newest_ms or nil)
end

local function due_at(i)
  return i <= n and dues[i] or fresh.dues[i - n]
end

local function id_at(i)
  return i <= n and ids[i] or fresh.ids[i - n]
end

-- The order in which rows are leased: nearly always the one they have.
local function turns()
  local turn, is_sorted, before = {}, true, 0
  for i = 1, n + #fresh.ids do
    local due = due_at(i)
    if due < before then is_sorted = false end
    turn[i], before = i, due
  end
  if order == 'due' and not is_sorted then
    table.sort(turn, function(a, b)
      local due_a, due_b = due_at(a), due_at(b)
      if due_a ~= due_b then return due_a < due_b end
      -- Of two that are due together, the one in the index is older.
      return a < b
    end)
  end
  return turn
end

local function answer(id, due, state, body)
  local last = #reply
  reply[last + 1], reply[last + 2], reply[last + 3], reply[last + 4] = id, due, state, body
end

local function lease_arrival(i, id, body)
  local place = fresh.places[i]
  local held = fresh.leases[i]
  if held ~= '' and owner_of(held) ~= owner then
    -- Its first owner died before any script had seen it.
    local row = read_state(new_state(place, ''))
    row.lost, row.lease = '1', LEASE
    out.state(id, state_text(row))
    answer(id, fresh.dues[i], state_text(row), body)
  else
    local state = new_state(place, LEASE)
    out.state(id, state)
    answer(id, fresh.dues[i], state, body)
  end
  out.wait(id, place)
  out.due(id, LEASE_END)
end

local function lease_waiting(i, id, body)
  local status, place, held, rest = split_state(states[i])
  local is_lost = held ~= '' and owner_of(held) ~= owner
  local state
  if rest == UNTOUCHED and not is_lost then
    state = status .. '\t' .. place .. '\t' .. LEASE .. '\t' .. rest
  else
    local row = read_state(states[i])
    if is_lost and (tonumber(row.lost) or 0) < suspect_after then row.lost = more(row.lost) end
    out.unpark(id, row)
    row.lease = LEASE
    state = state_text(row)
  end
  out.state(id, state)
  out.due(id, LEASE_END)
  answer(id, dues[i], state, body)
end

local function leave_arrival(i)
  local id, place = fresh.ids[i], fresh.places[i]
  out.state(id, new_state(place, fresh.leases[i]))
  out.due(id, int(fresh.dues[i]))
  out.wait(id, place)
end

if order == 'seq' then
  add_in_order()
else
  local page = due_page(0)
  local unread_from = arrivals_behind(page)
  if not unread_from then
    read_arrivals(math.max(limit, LOOK_AHEAD))
    unread_from = fresh.unread_from
  end
  local is_behind = add_due(page, fresh.set, unread_from)
  -- What was stamped looks like an arrival until its state is written: then the rest has its turn in the next claim.
  if is_behind and not has_stamped then read_arrivals(math.max(limit, CHUNK)) end
end

local chosen, wanted = {}, {}
for _, i in ipairs(turns()) do
  if #chosen < limit and due_at(i) <= now then
    chosen[#chosen + 1], wanted[#wanted + 1] = i, id_at(i)
  elseif i > n then
    leave_arrival(i - n)
  end
end

local function lease_row(i, id, body)
  if not body then
    -- Nothing to deliver. The repair removes it; until then it is out of the claims' way.
    orphans = orphans + 1
    if i <= n then out.due(id, LEASE_END) end
  elseif i <= n then
    lease_waiting(i, id, body)
  else
    lease_arrival(i - n, id, body)
  end
end

-- How many of the rows there is room for, and how large the next one is. No body is read for that.
local function fitting()
  local bytes = 0
  for k, id in ipairs(wanted) do
    local size = redis.call('HSTRLEN', ENTRIES, id)
    bytes = bytes + size
    local is_first = k == 1
    local fits = bytes <= max_bytes and (is_first or bytes <= MOST_BYTES)
    if not fits and not (is_first and is_whatever) then return k - 1, size end
  end
  return #wanted, 0
end

local count, too_large = fitting()
for at = 0, count - 1, BODIES do
  local last = math.min(at + BODIES, count)
  local bodies = redis.call('HMGET', ENTRIES, unpack(wanted, at + 1, last))
  for k = 1, last - at do lease_row(chosen[at + k], wanted[at + k], bodies[k]) end
end
for k = count + 1, #chosen do
  if chosen[k] > n then leave_arrival(chosen[k] - n) end
end

out.write()
if forget then forget() end
return whole_answer(too_large)
