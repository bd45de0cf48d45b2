-- Prelude: is put in front of every script. Names of the keys, the clock, and how rows are read and written.
--
-- A row lives in these keys of its shard:
--   entries    hash    id -> body (the event as JSON)
--   state      hash    id -> state, one text (see UNTOUCHED)
--   arrivals   stream  new events that no script has read yet, with their delay or lease
--   pending    zset    ids of rows that have not ended, by due time in microseconds (end of the lease while leased)
--   waiting, done, dead, archived    zset    rows of each kind, score 0, members `place:id`, so sorted by insertion
--   parked     zset    rows that wait for a route, score 0, members `route <tab> place:id`
--   control    set     paused routes (first shard only)
--   audit      stream  what operators did (first shard only)
--
-- Redis does not undo what a script wrote before it failed. So every script checks the types of all keys before its
-- first write, and writes in an order that the repair can complete from any point: body, state, indexes. A row is
-- deleted in the order body, indexes, state: a state without a body tells the repair to finish the deletion.

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

-- The time in microseconds: ARGV[1] if a test sets the clock, otherwise the clock of Redis. It is cut to whole
-- milliseconds because stream ids are in milliseconds: otherwise a row could have been inserted after `now`.
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + math.floor(time[2] / 1000) * 1000
end

-- tostring would write large numbers with an exponent.
local function int(number)
  return string.format('%.0f', number)
end

local NOW = int(now)

-- Bound of all counts of a row: the Rust side reads them as u32.
local MAX_COUNT = 4294967295

local function more(count)
  return int(math.min((tonumber(count) or 0) + 1, MAX_COUNT))
end

-- Maximum number of values passed to one command. `unpack` puts them on Lua's stack, which holds about 8,000.
local CHUNK = 1000

local function in_chunks(list, run)
  for first = 1, #list, CHUNK do
    run(unpack(list, first, math.min(first + CHUNK - 1, #list)))
  end
end

-- Runs `command` on `list` in chunks; does nothing if it is empty. CHUNK is even, so pairs are never split.
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

-- The state of a row is one text of twelve fields separated by tabs: status, place, lease, attempts, deferrals, lost
-- leases, replays, done_at, put_off, parked, progress, error. The last nine are called the rest.
--   status    0 NEW, 1 DONE, 2 RETRY, 3 DEAD, 4 ARCHIVED
--   place     position in insertion order: the stream id of the arrival, with the number of digits of its second number
--             in front of that number, so that places sort as texts
--   lease     `token owner time` (microseconds), or empty; its end is the score in `pending`
--   done_at   when the row ended, in microseconds, or empty
--   put_off   `since limit` in microseconds while the destination is unreachable, or empty
--   parked    the route that the row waits for, or empty
--   progress  destinations that have the event, separated by commas
--   error     the last error
-- Most rows never have more than a lease. Their rest is UNTOUCHED, so it is compared and copied as a whole.
local UNTOUCHED = '0\t0\t0\t0\t\t\t\t\t'
local STATE = '^([^\t]*)\t([^\t]*)\t([^\t]*)\t(.*)$'
local REST = '^([^\t]*)' .. string.rep('\t([^\t]*)', 7) .. '\t(.*)$'

local function split_state(text)
  local status, place, lease, rest = string.match(text, STATE)
  -- The state was edited and cannot be parsed. The row stays pending, so that an engine claims it and reports it.
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

-- Status -> index of rows that have ended. An unknown status counts as pending: an engine claims the row and reports
-- it.
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

-- Returns true if a lease with `place` belongs to the row at `own`. They differ if the row was deleted and its id
-- written again. The engine holds a place as a 64-bit `seq` with 12 bits for the number inside a millisecond, so
-- numbers from 4096 on carry over into the next milliseconds: such a place matches as well. A place that could not be
-- parsed is sent as 0-0.
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

-- A member of `waiting`, `done`, `dead` or `archived`.
local function seq_key(place, id)
  return place .. ':' .. id
end

local function id_of(key)
  return string.sub(key, string.find(key, ':', 1, true) + 1)
end

local function parked_key(row, id)
  return row.parked .. '\t' .. seq_key(row.place, id)
end

-- Parses an entry of the stream of arrivals: returns id, place, due time and the lease that the row was inserted with.
-- Returns nil for an entry that no Writer wrote. Consecutive entries mostly share their millisecond, so the last parsed
-- one is cached.
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

-- Stores a new event: body, then arrival, then due time. The repair completes it from any point. Returns its stream id,
-- or false if the id exists already.
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

-- Reads arrivals, oldest first, at most `count`, none inserted after the millisecond `last` (nil for no bound).
-- Returns:
-- - parallel lists `ids`, `dues`, `places`, `leases`; `set`, keyed by id; `unread_from`: every arrival inserted before
--   this time (microseconds) has been read;
-- - whether there may be more;
-- - a function that removes them from the stream. Call it after their states are written.
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
  -- An id that is known already, or twice in the list, is a duplicate arrival: the first row counts.
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

-- Collects all writes for the rows of one call; `write` sends them in the order that the repair can complete.
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

  -- Sets the due time of a pending row. `at`: a text, in microseconds.
  function self.due(id, at)
    append_pair(add[PENDING], at, id)
  end

  -- Adds a row to `waiting`: it is pending for the first time, or again.
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

  -- Adds a row to the index of its terminal status.
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

-- Ends a row with a terminal status. Lease, parking and put-off time are cleared.
local function finish(out, id, row, status, error)
  out.unpark(id, row)
  row.status, row.error, row.done_at, row.lease, row.put_off = status, error, NOW, '', ''
  out.ended(id, row.place, ENDED[status])
  out.forget_pending(id, row.place)
  out.state(id, state_text(row))
end

-- Releases the lease of a row. It is due at `due`.
local function let_go(out, id, row, due)
  out.unpark(id, row)
  row.lease = ''
  out.due(id, int(due))
end

-- Writes state and index entries of the oldest arrivals; returns whether there may be more.
local function index_arrivals(count)
  local found, more, forget = arrivals(count)
  local out = batch()
  for i, id in ipairs(found.ids) do
    -- An id that was written twice: its body may have been deleted together with the first row.
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

-- Returns the state of a leased row, and whether it is still an arrival. `text` is its entry in `state`; without one
-- the state is built from its arrival. Returns nil if the row is gone.
-- `has_indexed`: the arrivals were indexed by this call already, which is done at most once.
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
  -- The caller guessed the place: the reply to its write was lost, or the number in its millisecond is above 4095.
  if not has_indexed then
    has_indexed = true
    index_arrivals(CHUNK)
  end
  return redis.call('HGET', STATES, id) or nil, false
end

local AUDIT_LENGTH = 100000

-- Adds an entry to the audit, unless nothing changed or the actor is empty (the caller records it for all shards).
local function record_audit(actor, action, target, rows)
  if actor == '' or rows == 0 then return end
  redis.call('XADD', AUDIT, 'MAXLEN', '~', AUDIT_LENGTH, '*', 'actor', actor, 'action', action,
    'target', target, 'rows', rows)
end

-- Returns the body up to its payload, or false. Our Writers write the payload last and its length before it. A header
-- can have the name of the length field, but its value is a string, never a number. Plain `find`: a pattern would
-- examine a large body byte by byte.
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

-- Bytes of bodies that one script reads at most: more would block the server, and the reply would block its reader.
local MOST_BYTES = 8 * 1024 * 1024

-- Reads rows for an operator: id, state, due time and body of each, without payload unless `is_full`. Returns the rows;
-- how many of the ids were examined (at least one; reading stops at MOST_BYTES); how many bytes of bodies were read.
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
