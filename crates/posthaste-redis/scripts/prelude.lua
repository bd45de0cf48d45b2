-- Stands before every script: names, types, clock, and how a row is read and written.
--
-- Redis does not undo what a script wrote before it failed. So every script looks at the types of all
-- keys before its first write, and writes in an order that the repair script can finish from any point:
-- first the body, then the state, then the indexes; and when a row goes, the body first.

local ENTRIES, STATE, ARRIVALS, PENDING, WAITING = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local DONE, DONE_SEQ, DEAD, DEAD_SEQ = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local ARCHIVED, ARCHIVED_SEQ, PARKED = KEYS[10], KEYS[11], KEYS[12]
local CONTROL, AUDIT = KEYS[13], KEYS[14]

local TYPES = {
  'hash', 'hash', 'stream', 'zset', 'zset', 'zset', 'zset', 'zset', 'zset', 'zset', 'zset', 'zset', 'set', 'stream',
}
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

-- Lua's stack holds a few thousand values, so lists are handed to a command in pieces.
local CHUNK = 1000

local function in_chunks(list, step, run)
  for first = 1, #list, step do
    run(unpack(list, first, math.min(first + step - 1, #list)))
  end
end

-- Writes `list`, if there is anything in it; pairs are never torn apart.
local function write(command, key, list)
  in_chunks(list, CHUNK, function(...) redis.call(command, key, ...) end)
end

local function fields_of(key, ids)
  local values, n = {}, 0
  in_chunks(ids, CHUNK, function(...)
    local part = redis.call('HMGET', key, ...)
    for i = 1, #part do
      n = n + 1
      values[n] = part[i]
    end
  end)
  return values
end

-- A row is the text of its state, and this table while a script works on it. `sid` is the id that the
-- stream of arrivals gave it: when it was inserted, in milliseconds, and a number within them.
local STATE_PATTERN = '^([^\t]*)' .. string.rep('\t([^\t]*)', 11) .. '\t(.*)$'

local function read_state(text)
  local status, attempts, deferrals, lost, replays, sid, done_at, token, locked_at, owner, parked, progress, error =
    string.match(text, STATE_PATTERN)
  if not status then
    -- Somebody edited it. The row stays pending, so that an engine sees it and says so.
    return {
      status = '?', attempts = '0', deferrals = '0', lost = '0', replays = '0', sid = '0-0', done_at = '',
      token = '', locked_at = '', owner = '', parked = '', progress = '', error = '',
    }
  end
  return {
    status = status, attempts = attempts, deferrals = deferrals, lost = lost, replays = replays, sid = sid,
    done_at = done_at, token = token, locked_at = locked_at, owner = owner, parked = parked,
    progress = progress, error = error,
  }
end

local function state_text(row)
  return table.concat({
    row.status, row.attempts, row.deferrals, row.lost, row.replays, row.sid, row.done_at, row.token,
    row.locked_at, row.owner, row.parked, row.progress, row.error,
  }, '\t')
end

-- A code that nobody knows counts as pending, so that somebody claims the row and sees.
local function is_terminal(row)
  return row.status == '1' or row.status == '3' or row.status == '4'
end

local function inserted_ms(sid)
  return tonumber(string.match(sid, '^(%d+)')) or 0
end

-- The row's place in the order of insertion, as text that sorts like it.
local function seq_key(sid, id)
  local ms, n = string.match(sid, '^(%d+)-(%d+)$')
  return string.format('%014.0f-%08.0f:', tonumber(ms) or 0, tonumber(n) or 0) .. id
end

local function id_of(seq_key_text)
  return string.sub(seq_key_text, 25)
end

local function parked_key(row, id)
  return row.parked .. '\t' .. seq_key(row.sid, id)
end

-- What an entry of the stream of arrivals says about its event: whose lease it was born with, or how
-- long it waits first.
local function read_arrival(arrival)
  local sid, list, fields = arrival[1], arrival[2], {}
  for i = 1, #list, 2 do
    fields[list[i]] = list[i + 1]
  end
  local id = fields.i
  if not id then return nil end
  local row = {
    status = '0', attempts = '0', deferrals = '0', lost = '0', replays = '0', sid = sid, done_at = '',
    token = fields.t or '', locked_at = '', owner = fields.o or '', parked = '', progress = '', error = '',
  }
  local inserted = inserted_ms(sid) * 1000
  if row.token ~= '' then row.locked_at = int(inserted) end
  return id, row, inserted + (tonumber(fields.l or fields.d) or 0)
end

-- Stores a new event: first its body, then its arrival, then its due time. Answers its sid, or false where
-- the id existed already.
local function enqueue(id, body, wait, owner, token)
  if redis.call('HSETNX', ENTRIES, id, body) == 0 then return false end
  local sid
  if token ~= '' then
    sid = redis.call('XADD', ARRIVALS, '*', 'i', id, 'o', owner, 't', token, 'l', wait)
  else
    sid = redis.call('XADD', ARRIVALS, '*', 'i', id, 'd', wait)
  end
  redis.call('ZADD', PENDING, 'NX', int(inserted_ms(sid) * 1000 + tonumber(wait)), id)
  return sid
end

-- Arrivals that nobody has looked at yet, oldest first, at most `count`, none later than `last`; the
-- second answer is whether there may be more. They leave the stream with `forget`, after their states
-- are written.
local function arrivals(count, last)
  local list = redis.call('XRANGE', ARRIVALS, '-', last or '+', 'COUNT', count)
  local ids, rows, dues = {}, {}, {}
  for i, arrival in ipairs(list) do
    local id, row, due = read_arrival(arrival)
    -- An entry without an id is not ours, and is dropped with the others.
    if id then
      ids[#ids + 1], rows[#rows + 1], dues[#dues + 1] = id, row, due
    end
  end
  local known, seen, found = fields_of(STATE, ids), {}, {}
  for i, id in ipairs(ids) do
    -- An id that was written twice is the row that is there already.
    if not known[i] and not seen[id] then
      seen[id] = true
      found[#found + 1] = { id = id, row = rows[i], due = dues[i] }
    end
  end
  local function forget()
    if #list == 0 then return end
    local ms, n = string.match(list[#list][1], '^(%d+)-(%d+)$')
    redis.call('XTRIM', ARRIVALS, 'MINID', ms .. '-' .. int(n + 1))
  end
  return found, #list == count, forget
end

-- Rows of one batch, with all that has to be written for them, in the order that can be repaired.
local function batch()
  local add = {}
  local remove = {}
  local self = {}

  local function put(list, key, a, b)
    local items = list[key]
    if not items then
      items = {}
      list[key] = items
    end
    items[#items + 1] = a
    if b then items[#items + 1] = b end
  end

  function self.state(id, row)
    put(add, STATE, id, state_text(row))
  end

  -- Pending, and due then.
  function self.due(id, score)
    put(add, PENDING, int(score), id)
  end

  -- Pending for the first time, or again.
  function self.wait(id, row)
    put(add, WAITING, 0, seq_key(row.sid, id))
  end

  function self.park(id, row)
    put(add, PARKED, 0, parked_key(row, id))
  end

  function self.unpark(id, row)
    if row.parked ~= '' then
      put(remove, PARKED, parked_key(row, id))
      row.parked = ''
    end
  end

  -- Into the two indexes of the rows that ended like this.
  function self.ended(id, row, by_time, by_seq)
    put(add, by_time, row.done_at, id)
    put(add, by_seq, 0, seq_key(row.sid, id))
  end

  function self.forget_pending(id, row)
    put(remove, PENDING, id)
    put(remove, WAITING, seq_key(row.sid, id))
  end

  function self.forget_ended(id, row, by_time, by_seq)
    put(remove, by_time, id)
    put(remove, by_seq, seq_key(row.sid, id))
  end

  function self.forget_arrival(sid)
    put(remove, ARRIVALS, sid)
  end

  function self.delete(id)
    put(remove, ENTRIES, id)
    put(remove, STATE, id)
  end

  function self.write()
    write('HDEL', ENTRIES, remove[ENTRIES] or {})
    write('HSET', STATE, add[STATE] or {})
    for _, key in ipairs({ PENDING, WAITING, DONE, DONE_SEQ, DEAD, DEAD_SEQ, ARCHIVED, ARCHIVED_SEQ, PARKED }) do
      write('ZADD', key, add[key] or {})
    end
    for _, key in ipairs({ PENDING, WAITING, DONE, DONE_SEQ, DEAD, DEAD_SEQ, ARCHIVED, ARCHIVED_SEQ, PARKED }) do
      write('ZREM', key, remove[key] or {})
    end
    write('HDEL', STATE, remove[STATE] or {})
    write('XDEL', ARRIVALS, remove[ARRIVALS] or {})
  end

  return self
end

-- Ends a row's way: terminal, with nothing left of its lease.
local function finish(out, id, row, status, error)
  out.unpark(id, row)
  row.status, row.error, row.done_at = status, error, int(now)
  row.token, row.locked_at, row.owner = '', '', ''
  if status == '1' then
    out.ended(id, row, DONE, DONE_SEQ)
  elseif status == '3' then
    out.ended(id, row, DEAD, DEAD_SEQ)
  else
    out.ended(id, row, ARCHIVED, ARCHIVED_SEQ)
  end
  out.forget_pending(id, row)
  out.state(id, row)
end

-- Gives a row back, due then.
local function let_go(out, id, row, due)
  out.unpark(id, row)
  row.token, row.locked_at, row.owner = '', '', ''
  out.due(id, due)
end

-- Makes arrivals rows of the waiting kind; answers how many it looked at and whether there may be more.
local function promote(count)
  local found, more, forget = arrivals(count)
  local out, promoted = batch(), 0
  for _, arrival in ipairs(found) do
    -- The body of an id that was written twice may be gone with the first.
    if redis.call('HEXISTS', ENTRIES, arrival.id) == 1 then
      out.state(arrival.id, arrival.row)
      out.due(arrival.id, arrival.due)
      out.wait(arrival.id, arrival.row)
      promoted = promoted + 1
    end
  end
  out.write()
  forget()
  return promoted, more
end

-- The row of a lease: its state, or while no script has seen it, what its arrival says. The third
-- answer is whether it is such an arrival.
local function row_of(id, sid, text)
  if text then return read_state(text), false end
  local arrival = redis.call('XRANGE', ARRIVALS, sid, sid)[1]
  if not arrival then return nil end
  local arrived, row, due = read_arrival(arrival)
  if arrived ~= id or redis.call('HEXISTS', ENTRIES, id) == 0 then return nil end
  return row, true, due
end

local function is_held(row, owner, token)
  return row.token == token and row.owner == owner and not is_terminal(row)
end

local AUDIT_LENGTH = 100000

-- Puts a change by a person on record, unless it changed nothing or the caller does so for all shards.
local function note(actor, action, target, rows)
  if actor == '' or rows == 0 then return end
  redis.call('XADD', AUDIT, 'MAXLEN', '~', AUDIT_LENGTH, '*', 'actor', actor, 'action', action,
    'target', target, 'rows', rows)
end

-- The body without its payload, which stands last in what we write ourselves.
local function without_payload(body)
  return body and (string.match(body, '^(.*),"payload":') or string.match(body, '^(.*),"payload_base64":') or false)
end

-- What a person sees of a row: id, state, due time, body.
local function shown(ids, is_full)
  local states, bodies, rows = fields_of(STATE, ids), fields_of(ENTRIES, ids), {}
  for i, id in ipairs(ids) do
    local body = bodies[i]
    if body or states[i] then
      local head = not is_full and without_payload(body)
      rows[#rows + 1] = {
        id, states[i], redis.call('ZSCORE', PENDING, id), head and head .. '}' or body,
      }
    end
  end
  return rows
end
