-- Claim: leases due rows of one shard to one owner.
-- ARGV: now; owner; token; lease; limit; skip_recent; order (due | seq); suspect_after; max_bytes; ignores_size (1: the
-- first row is returned whatever its size, or 0); wants_state (1: also return the routes, or 0); max_parked_names.
-- lease and skip_recent are in microseconds.
-- Returns: now; a flat list of id, due time, state and body of each row; the number of members without a body; the size
-- in bytes of the first row that did not fit, or 0; the paused routes; the routes that have parked rows. The last two
-- are empty without wants_state.

local owner, token, lease, limit = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local skip_recent, order, suspect_after = tonumber(ARGV[6]), ARGV[7], tonumber(ARGV[8])
local max_bytes, ignores_size, wants_state = tonumber(ARGV[9]), ARGV[10] == '1', ARGV[11] == '1'
local max_parked_names = tonumber(ARGV[12])
-- Members of an index that one claim examines at most, so that a long run of rows that cannot be claimed does not block
-- the server.
local LOOK = 10000
-- Arrivals read at least, even for a small limit: some of them may have a delay and are not claimable yet.
local LOOK_AHEAD = 20
-- Bodies per HMGET. Its reply is in Lua's memory as a whole, beside the script's own reply.
local BODIES = 50

-- One lookup per route name, however many rows are parked for it: `\n` sorts directly behind the `\t` that ends a name.
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
if wants_state then paused, parked = redis.call('SMEMBERS', CONTROL), parked_names() end

local function full_reply(too_large)
  -- A read-only replica would return "nothing is due" until its primary sends something new. This command deletes
  -- nothing (no entry has this id), but a server that takes no writes refuses it, so the caller gets an error. It comes
  -- last: if it came first, Redis would let the rest of the script write although the memory limit is reached.
  if wants_state then redis.call('XDEL', ARRIVALS, '0-0') end
  return { NOW, reply, orphans, too_large, paused, parked }
end

if limit == 0 then return full_reply(0) end

local LEASE, LEASE_END = lease_text(token, owner, NOW), int(now + lease)
local newest_ms = math.floor((now - skip_recent) / 1000)
local out = batch()

-- The due rows of the index as parallel lists: a table per row would cost more than the rest of the script.
local ids, dues, states, n = {}, {}, {}, 0

local function add(id, due, state)
  n = n + 1
  ids[n], dues[n], states[n] = id, due, state
end

local function is_settled_in(place)
  return skip_recent == 0 or inserted_ms(place) <= newest_ms
end

-- Gives a row its position in insertion order. Such a member of `pending` has neither a state nor an arrival: a foreign
-- program wrote it with HSET entries and ZADD pending. The stream generates the position; its entry is deleted in
-- `write`.
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

-- Adds due rows from `pending` until they and the arrivals read so far are enough. All arrivals inserted before
-- `unread_from` have been read. Returns true if a member was skipped because it may be an arrival that was not read.
local function add_due(first_page, arrived, unread_from)
  local offset, list, enough, is_unread = 0, first_page, 0, false
  while enough < limit and offset < LOOK do
    local members = {}
    for i = 1, #list, 2 do members[#members + 1] = list[i] end
    local found = fields_of(STATES, members)
    for i, id in ipairs(members) do
      local due, state = tonumber(list[2 * i]), found[i]
      if not state and arrived[id] then
        -- An arrival that was read. The rest of this script takes it from there, because that entry has its lease.
        enough = enough + 1
      elseif not state and due >= unread_from then
        -- A row is never due before it was inserted, so this may be an arrival that was not read.
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

-- Fast path for a backlog. If `pending` alone fills the claim with rows older than all arrivals, returns the time of
-- the oldest arrival, so that none has to be read. Otherwise returns nil.
local function arrivals_behind(page)
  if #page < 2 * limit or skip_recent > 0 then return nil end
  local first = redis.call('XRANGE', ARRIVALS, '-', '+', 'COUNT', 1)[1]
  local at = first and inserted_ms(first[1]) * 1000 or math.huge
  -- Strictly older: a member that is due in the same millisecond may be the arrival itself.
  return tonumber(page[#page]) < at and at or nil
end

-- Order `seq`: by insertion. Stops at the first row that is leased, because no later row may overtake it.
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

-- The arrivals to lease. A turn (see `turns`) of 1..n means a due row, one above n means arrival `turn - n`.
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

-- The order in which rows are leased. They are nearly always sorted already, so sorting is skipped then.
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
      -- Equal due times: the row in the index was inserted earlier.
      return a < b
    end)
  end
  return turn
end

local function add_to_reply(id, due, state, body)
  local last = #reply
  reply[last + 1], reply[last + 2], reply[last + 3], reply[last + 4] = id, due, state, body
end

local function lease_arrival(i, id, body)
  local place = fresh.places[i]
  local held = fresh.leases[i]
  if held ~= '' and owner_of(held) ~= owner then
    -- The engine that wrote this event died before any script read the arrival, so its lease is counted as lost.
    local row = read_state(new_state(place, ''))
    row.lost, row.lease = '1', LEASE
    out.state(id, state_text(row))
    add_to_reply(id, fresh.dues[i], state_text(row), body)
  else
    local state = new_state(place, LEASE)
    out.state(id, state)
    add_to_reply(id, fresh.dues[i], state, body)
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
  add_to_reply(id, dues[i], state, body)
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
  -- A stamped row has no state until `out.write`, so it would be read again as an arrival. The next claim reads the
  -- rest.
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
    -- There is nothing to deliver. The repair removes the member; until then the lease keeps it out of claims.
    orphans = orphans + 1
    if i <= n then out.due(id, LEASE_END) end
  elseif i <= n then
    lease_waiting(i, id, body)
  else
    lease_arrival(i - n, id, body)
  end
end

-- Returns how many of the wanted rows fit, and the size of the first one that does not, or 0. Reads lengths, not
-- bodies.
local function fitting()
  local bytes = 0
  for k, id in ipairs(wanted) do
    local size = redis.call('HSTRLEN', ENTRIES, id)
    bytes = bytes + size
    local is_first = k == 1
    local fits = bytes <= max_bytes and (is_first or bytes <= MOST_BYTES)
    if not fits and not (is_first and ignores_size) then return k - 1, size end
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
return full_reply(too_large)
