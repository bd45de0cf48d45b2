-- Stands before every script: names, types, clock, and how a row is read and written.
--
-- Redis does not undo what a script wrote before it failed. So every script looks at the types of all
-- keys before its first write, and writes in an order that the repair script can finish from any point:
-- first the body, then the state, then the indexes; and when a row goes, the body first.

local ENTRIES, STATES, ARRIVALS, PENDING, WAITING = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local DONE, DEAD, ARCHIVED, PARKED = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local CONTROL, AUDIT = KEYS[10], KEYS[11]

local TYPES = { 'hash', 'hash', 'stream', 'zset', 'zset', 'zset', 'zset', 'zset', 'zset', 'set', 'stream' }
for i, expected in ipairs(TYPES) do
  local found = redis.call('TYPE', KEYS[i]).ok
  if found ~= 'none' and found ~= expected then
    return redis.error_reply('WRONGKEY ' .. KEYS[i] .. ' is a ' .. found .. ', not a ' .. expected)
  end
end

-- Microseconds. Redis' own clock, unless a test brings another; in whole milliseconds, as the streams
-- count, or a row would be inserted before the moment at which it was.
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + math.floor(time[2] / 1000) * 1000
end

-- Lua would write large numbers with an exponent.
local function int(number)
  return string.format('%.0f', number)
end

local NOW = int(now)

-- No count grows beyond what its readers can hold.
local MAX_COUNT = 4294967295

local function more(count)
  return int(math.min((tonumber(count) or 0) + 1, MAX_COUNT))
end

-- Lua's stack holds a few thousand values, so lists are handed to a command in pieces.
local CHUNK = 1000

local function in_chunks(list, run)
  for first = 1, #list, CHUNK do
    run(unpack(list, first, math.min(first + CHUNK - 1, #list)))
  end
end

-- Writes `list`, if there is anything in it; pairs are never torn apart.
local function write(command, key, list)
  in_chunks(list, function(...) redis.call(command, key, ...) end)
end

local function fields_of(key, ids)
  if #ids <= CHUNK then
    return #ids == 0 and {} or redis.call('HMGET', key, unpack(ids))
  end
  local values, n = {}, 0
  in_chunks(ids, function(...)
    for _, value in ipairs(redis.call('HMGET', key, ...)) do
      n = n + 1
      values[n] = value
    end
  end)
  return values
end

-- The state of a row is one text: status, place, lease, and the rest. The place is its place in the order of
-- insertion: the stream id of its arrival, with the length of the second number before it, so that texts
-- sort as the numbers do. The lease is token, owner and time, or nothing; what says that a row is put off is since
-- when and the longest limit, or nothing. Most rows never see more than a lease: their rest is this one.
local UNTOUCHED = '0\t0\t0\t0\t\t\t\t\t'
local STATE = '^([^\t]*)\t([^\t]*)\t([^\t]*)\t(.*)$'
local REST = '^([^\t]*)' .. string.rep('\t([^\t]*)', 7) .. '\t(.*)$'

local function split_state(text)
  local status, place, lease, rest = string.match(text, STATE)
  -- It was edited. The row stays pending, so that an engine sees it and says so.
  if not status then return '?', '0-10', '', UNTOUCHED end
  return status, place, lease, rest
end

local function read_state(text)
  local status, place, lease, rest = split_state(text)
  local attempts, deferrals, lost, replays, done_at, put_off, parked, progress, error = string.match(rest, REST)
  if not attempts then return read_state('?\t' .. place .. '\t\t' .. UNTOUCHED) end
  return {
    status = status, place = place, lease = lease, attempts = attempts, deferrals = deferrals, lost = lost,
    replays = replays, done_at = done_at, put_off = put_off, parked = parked, progress = progress, error = error,
  }
end

local function state_text(row)
  return table.concat({
    row.status, row.place, row.lease, row.attempts, row.deferrals, row.lost, row.replays, row.done_at,
    row.put_off, row.parked, row.progress, row.error,
  }, '\t')
end

-- The indexes of rows that have ended: DONE, which the document calls SENT, DEAD, which it calls FAILED, and
-- ARCHIVED. An unknown code counts as pending, so that an engine claims the row and reports it.
local ENDED = { ['1'] = DONE, ['3'] = DEAD, ['4'] = ARCHIVED }

local function ends(status)
  return ENDED[status] ~= nil
end

local function lease_text(token, owner, at)
  return token .. ' ' .. owner .. ' ' .. at
end

local function owner_of(lease)
  return string.match(lease, '^[^ ]* ([^ ]*)')
end

local function place_of(sid)
  local dash = string.find(sid, '-', 1, true)
  local n = string.sub(sid, dash + 1)
  return string.sub(sid, 1, dash) .. #n .. n
end

-- Whether a lease that names this place means the row at `own`: an id may be written again after its row was
-- deleted, at another place. A lease has room for 4096 rows of a millisecond; more run over into the next one. A
-- place that cannot be read is named as the first of all.
local function is_at(own, place)
  if own == place then return true end
  local ms, n = string.match(own, '^(%d+)%-.(%d+)$')
  if not ms then return place == '0-10' end
  return place_of(int(ms + math.floor(n / 4096)) .. '-' .. int(n % 4096)) == place
end

local function is_held(row, place, owner, token)
  local prefix = lease_text(token, owner, '')
  return not ends(row.status) and string.sub(row.lease, 1, #prefix) == prefix and is_at(row.place, place)
end

local function sid_of(place)
  local dash = string.find(place, '-', 1, true) or 0
  return string.sub(place, 1, dash) .. string.sub(place, dash + 2)
end

local function inserted_ms(place)
  return tonumber(string.match(place, '^%d+')) or 0
end

-- A member of an index in the order of insertion.
local function seq_key(place, id)
  return place .. ':' .. id
end

local function id_of(key)
  return string.sub(key, string.find(key, ':', 1, true) + 1)
end

local function parked_key(row, id)
  return row.parked .. '\t' .. seq_key(row.place, id)
end

-- What an entry of the stream of arrivals says: id, place, due time, and the lease that the row was born with.
-- An entry that no Writer of ours made returns nothing. Neighbours share their millisecond, so that reading
-- it once is enough.
local last_ms, last_inserted = '', 0

local function read_arrival(arrival)
  local sid, fields = arrival[1], arrival[2]
  if fields[1] ~= 'i' then return nil end
  local dash = string.find(sid, '-', 1, true)
  local ms, number = string.sub(sid, 1, dash), string.sub(sid, dash + 1)
  if ms ~= last_ms then last_ms, last_inserted = ms, inserted_ms(ms) * 1000 end
  local place, kind = ms .. #number .. number, fields[3]
  if not kind then return fields[2], place, last_inserted, '' end
  if kind == 'l' then
    local wait, token, owner = string.match(fields[4], '^(%d+) (%d+) (.*)$')
    if wait then
      return fields[2], place, last_inserted + tonumber(wait), lease_text(token, owner, int(last_inserted))
    end
    return fields[2], place, last_inserted, ''
  end
  return fields[2], place, last_inserted + (tonumber(fields[4]) or 0), ''
end

local function new_state(place, lease)
  return '0\t' .. place .. '\t' .. lease .. '\t' .. UNTOUCHED
end

-- Stores a new event: first its body, then its arrival, then its due time. Returns its stream id, or false
-- where the id existed already.
local function enqueue(id, body, wait, owner, token)
  if redis.call('HSETNX', ENTRIES, id, body) == 0 then return false end
  local sid
  if token ~= '' then
    sid = redis.call('XADD', ARRIVALS, '*', 'i', id, 'l', wait .. ' ' .. token .. ' ' .. owner)
  else
    sid = redis.call('XADD', ARRIVALS, '*', 'i', id, 'd', wait)
  end
  redis.call('ZADD', PENDING, 'NX', int(inserted_ms(sid) * 1000 + tonumber(wait)), id)
  return sid
end

-- Arrivals that no script has looked at yet, oldest first, at most `count`, none later than the millisecond `last`:
-- lists of ids, due times, places and leases side by side, the set of the ids, and the time before which none is
-- left. Then whether there may be more, and what makes them leave the stream, to be called after their states are
-- written.
local function arrivals(count, last)
  local list = redis.call('XRANGE', ARRIVALS, '-', last and int(last) or '+', 'COUNT', count)
  local unread_from = last and (last + 1) * 1000 or math.huge
  if #list == count then unread_from = inserted_ms(list[#list][1]) * 1000 end
  local ids, dues, places, leases, n = {}, {}, {}, {}, 0
  for i = 1, #list do
    local id, place, due, lease = read_arrival(list[i])
    if id then
      n = n + 1
      ids[n], dues[n], places[n], leases[n] = id, due, place, lease
    end
  end
  -- An id that was written twice is the row that is there already.
  local known, set, kept = fields_of(STATES, ids), {}, 0
  for i = 1, n do
    local id = ids[i]
    if not known[i] and not set[id] then
      set[id], kept = true, kept + 1
      if kept < i then
        ids[kept], dues[kept], places[kept], leases[kept] = id, dues[i], places[i], leases[i]
      end
    end
  end
  for i = kept + 1, n do ids[i], dues[i], places[i], leases[i] = nil, nil, nil, nil end
  local function forget()
    if #list == 0 then return end
    local ms, number = string.match(list[#list][1], '^(%d+)-(%d+)$')
    redis.call('XTRIM', ARRIVALS, 'MINID', ms .. '-' .. int(number + 1))
  end
  local found = { ids = ids, dues = dues, places = places, leases = leases, set = set, unread_from = unread_from }
  return found, #list == count, forget
end

-- All that has to be written for the rows of one call, in the order that can be repaired.
local SORTED_SETS = { PENDING, WAITING, DONE, DEAD, ARCHIVED, PARKED }

local function batch()
  local self, states, bodies, gone, arrived = {}, {}, {}, {}, {}
  local add, remove = {}, {}
  for _, key in ipairs(SORTED_SETS) do add[key], remove[key] = {}, {} end

  local function append(list, item)
    list[#list + 1] = item
  end

  local function append_pair(list, a, b)
    local n = #list
    list[n + 1], list[n + 2] = a, b
  end

  function self.state(id, text)
    append_pair(states, id, text)
  end

  -- Pending, and due at this time, which is a text.
  function self.due(id, at)
    append_pair(add[PENDING], at, id)
  end

  -- Pending for the first time, or again.
  function self.wait(id, place)
    append_pair(add[WAITING], 0, seq_key(place, id))
  end

  function self.park(id, row)
    append_pair(add[PARKED], 0, parked_key(row, id))
  end

  function self.unpark(id, row)
    if row.parked ~= '' then
      append(remove[PARKED], parked_key(row, id))
      row.parked = ''
    end
  end

  -- Into the index of the rows that ended like this.
  function self.ended(id, place, index)
    append_pair(add[index], 0, seq_key(place, id))
  end

  function self.forget_pending(id, place)
    append(remove[PENDING], id)
    append(remove[WAITING], seq_key(place, id))
  end

  function self.forget_ended(id, place, index)
    append(remove[index], seq_key(place, id))
  end

  function self.forget_arrival(place)
    append(arrived, sid_of(place))
  end

  function self.delete(id)
    append(bodies, id)
    append(gone, id)
  end

  function self.write()
    write('HDEL', ENTRIES, bodies)
    write('HSET', STATES, states)
    for _, key in ipairs(SORTED_SETS) do write('ZADD', key, add[key]) end
    for _, key in ipairs(SORTED_SETS) do write('ZREM', key, remove[key]) end
    write('HDEL', STATES, gone)
    write('XDEL', ARRIVALS, arrived)
  end

  return self
end

-- Ends a row's way: terminal, with nothing left of its lease or of its waiting.
local function finish(out, id, row, status, error)
  out.unpark(id, row)
  row.status, row.error, row.done_at, row.lease, row.put_off = status, error, NOW, '', ''
  out.ended(id, row.place, ENDED[status])
  out.forget_pending(id, row.place)
  out.state(id, state_text(row))
end

-- Gives a row back, due then.
local function let_go(out, id, row, due)
  out.unpark(id, row)
  row.lease = ''
  out.due(id, int(due))
end

-- Makes arrivals rows that wait; returns whether there may be more.
local function index_arrivals(count)
  local found, more, forget = arrivals(count)
  local out = batch()
  for i, id in ipairs(found.ids) do
    -- The body of an id that was written twice may be gone with the first.
    if redis.call('HEXISTS', ENTRIES, id) == 1 then
      out.state(id, new_state(found.places[i], found.leases[i]))
      out.due(id, int(found.dues[i]))
      out.wait(id, found.places[i])
    end
  end
  out.write()
  forget()
  return more
end

-- The state of a lease's row: what it is, or while no script has seen it, what its arrival says. The second
-- answer is whether it is such an arrival.
local has_indexed = false

local function state_of(id, place, text)
  if text then return text, false end
  if redis.call('HEXISTS', ENTRIES, id) == 0 then return nil end
  local sid = sid_of(place)
  local arrival = redis.call('XRANGE', ARRIVALS, sid, sid)[1]
  if arrival then
    local arrived, at, _, lease = read_arrival(arrival)
    if arrived == id then return new_state(at, lease), true end
  end
  -- The place was a guess: the answer to the write was lost, or its millisecond was crowded.
  if not has_indexed then
    has_indexed = true
    index_arrivals(CHUNK)
  end
  return redis.call('HGET', STATES, id) or nil, false
end

local AUDIT_LENGTH = 100000

-- Puts a change by a person on record, unless it changed nothing or the caller does so for all shards.
local function record_audit(actor, action, target, rows)
  if actor == '' or rows == 0 then return end
  redis.call('XADD', AUDIT, 'MAXLEN', '~', AUDIT_LENGTH, '*', 'actor', actor, 'action', action,
    'target', target, 'rows', rows)
end

-- The body without its payload, which stands last in what our own Writers make, behind its length. A header may
-- have the name of the length, but not a number. A pattern would go through a large body letter by letter.
local LENGTH = ',"payload_bytes":'

local function without_payload(body)
  local at = body and string.find(body, LENGTH, 1, true)
  while at do
    local last = string.match(body, '^%d+()', at + #LENGTH)
    if last then
      local payload = string.find(body, ',"payload":', last, true)
      return payload and string.sub(body, 1, payload - 1) or false
    end
    at = string.find(body, LENGTH, at + 1, true)
  end
  return false
end

-- A script that reads more of bodies than this would keep others waiting, and the reader of its answer too.
local MOST_BYTES = 8 * 1024 * 1024

-- What a person sees of a row: id, state, due time, body. Then how many of the ids were looked at, at least one and
-- no more than a script may read; and how many bytes of bodies that were.
local function shown(ids, is_full)
  local states, rows, bytes = fields_of(STATES, ids), {}, 0
  for i, id in ipairs(ids) do
    local size = redis.call('HSTRLEN', ENTRIES, id)
    if i > 1 and bytes + size > MOST_BYTES then return rows, i - 1, bytes end
    bytes = bytes + size
    local body = redis.call('HGET', ENTRIES, id)
    if body or states[i] then
      local head = not is_full and without_payload(body)
      rows[#rows + 1] = {
        id, states[i], redis.call('ZSCORE', PENDING, id), head and head .. '}' or body,
      }
    end
  end
  return rows, #ids, bytes
end
