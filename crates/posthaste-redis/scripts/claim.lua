-- Leases due rows to one owner.
-- ARGV: now, owner, token, lease, limit, skip_recent, order (due | seq), max_lost_leases.
-- Answers: now; a list of id, due, state, body for each; the ids that died; how many orphans were skipped;
-- the routes that are paused.

local owner, token, lease, limit = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local skip_recent, order, max_lost = tonumber(ARGV[6]), ARGV[7], tonumber(ARGV[8])
local LOOK = 10000

local reply, died, orphans = {}, {}, 0
local paused = redis.call('SMEMBERS', CONTROL)
if limit == 0 then return { int(now), reply, died, orphans, paused } end

local newest_ms = math.floor((now - skip_recent) / 1000)
local function is_settled_in(sid)
  return skip_recent == 0 or inserted_ms(sid) <= newest_ms
end

-- Members of the index of due times, as candidates. One without a state was written by a foreign
-- program with the two commands of the document: it gets its place in the order now.
local function candidates_of(list)
  local ids = {}
  for i = 1, #list, 2 do ids[#ids + 1] = list[i] end
  local states, found = fields_of(STATE, ids), {}
  for i, id in ipairs(ids) do
    found[i] = { id = id, due = tonumber(list[2 * i]), row = states[i] and read_state(states[i]) }
  end
  return found
end

local out = batch()

local function stamp(candidate)
  local sid = redis.call('XADD', ARRIVALS, '*', 'i', candidate.id)
  candidate.row = {
    status = '0', attempts = '0', deferrals = '0', lost = '0', replays = '0', sid = sid, done_at = '',
    token = '', locked_at = '', owner = '', parked = '', progress = '', error = '',
  }
  out.wait(candidate.id, candidate.row)
  out.forget_arrival(sid)
end

-- By due time: what is due among the rows that wait, and among those that have just arrived.
local function by_due()
  local fresh, _, forget = arrivals(math.max(limit, 100), skip_recent > 0 and int(newest_ms) or nil)
  local arrived = {}
  for _, arrival in ipairs(fresh) do
    arrival.is_new = true
    arrived[arrival.id] = arrival
  end
  local found, offset = {}, 0
  while #found < limit and offset < LOOK do
    local list = redis.call('ZRANGEBYSCORE', PENDING, '-inf', int(now), 'WITHSCORES', 'LIMIT', offset, limit)
    for _, candidate in ipairs(candidates_of(list)) do
      -- An arrival may be in the index already; then it says more.
      if candidate.row then
        if is_terminal(candidate.row) then
          out.forget_pending(candidate.id, candidate.row)
        elseif is_settled_in(candidate.row.sid) then
          found[#found + 1] = candidate
        end
      elseif not arrived[candidate.id] then
        stamp(candidate)
        if is_settled_in(candidate.row.sid) then
          found[#found + 1] = candidate
        else
          out.state(candidate.id, candidate.row)
        end
      end
    end
    if #list < 2 * limit then break end
    offset = offset + limit
  end
  for _, arrival in ipairs(fresh) do
    if arrival.due <= now then
      found[#found + 1] = arrival
    else
      out.state(arrival.id, arrival.row)
      out.due(arrival.id, arrival.due)
      out.wait(arrival.id, arrival.row)
    end
  end
  for _, candidate in ipairs(found) do candidate.key = seq_key(candidate.row.sid, '') end
  table.sort(found, function(a, b)
    if a.due ~= b.due then return a.due < b.due end
    return a.key < b.key
  end)
  return found, forget
end

-- By insertion, and never past a row that is on lease.
local function by_seq()
  promote(math.max(limit, CHUNK))
  local found, start, looked = {}, '-', 0
  while looked < LOOK do
    local keys = redis.call('ZRANGEBYLEX', WAITING, start, '+', 'LIMIT', 0, 100)
    if #keys == 0 then break end
    local ids = {}
    for i, key in ipairs(keys) do ids[i] = id_of(key) end
    local states = fields_of(STATE, ids)
    local scores = redis.call('ZMSCORE', PENDING, unpack(ids))
    for i, id in ipairs(ids) do
      local row, due = states[i] and read_state(states[i]), tonumber(scores[i] or nil)
      if row and due then
        if due > now then
          if row.token ~= '' then return found end
        elseif is_settled_in(row.sid) then
          found[#found + 1] = { id = id, due = due, row = row }
          if #found == limit then return found end
        end
      end
    end
    start, looked = '(' .. keys[#keys], looked + #keys
  end
  return found
end

local found, forget
if order == 'seq' then found = by_seq() else found, forget = by_due() end

local ids = {}
for i = 1, math.min(#found, limit) do ids[i] = found[i].id end
local bodies = fields_of(ENTRIES, ids)

for i, candidate in ipairs(found) do
  local id, row = candidate.id, candidate.row
  local is_chosen = i <= limit
  if is_chosen and not bodies[i] then
    -- Nothing to deliver. The repair worker removes it; until then it is out of the claims' way.
    orphans = orphans + 1
    if not candidate.is_new then out.due(id, now + lease) end
  elseif is_chosen then
    if row.token ~= '' and row.owner ~= owner then row.lost = int(tonumber(row.lost) + 1) end
    if tonumber(row.lost) >= max_lost then
      finish(out, id, row, '3', 'its owner died ' .. row.lost .. ' times')
      died[#died + 1] = id
    else
      out.unpark(id, row)
      row.token, row.locked_at, row.owner = token, int(now), owner
      out.state(id, row)
      out.due(id, now + lease)
      if candidate.is_new then out.wait(id, row) end
      reply[#reply + 1] = { id, int(candidate.due), state_text(row), bodies[i] }
    end
  elseif candidate.is_new then
    out.state(id, row)
    out.due(id, candidate.due)
    out.wait(id, row)
  end
end

out.write()
if forget then forget() end
return { int(now), reply, died, orphans, paused }
