-- Purges or archives old rows: one page in insertion order.
-- ARGV: now; what (done | dead | archived | any); older_than in microseconds; archive (1 | 0); limit; actor; target;
-- after (a member, or empty for the start).
-- Returns: the number of rows; the member to continue after, or empty at the end; 1 if this page has more rows to purge
-- (call again with the same `after`), else 0.

local what, before = ARGV[2], now - tonumber(ARGV[3])
local archive, limit, after = ARGV[4] == '1', tonumber(ARGV[5]), ARGV[8]
local KINDS = { done = { DONE }, dead = { DEAD }, archived = { ARCHIVED }, any = { WAITING, DONE, DEAD } }
local LOOK = 1000
-- Bodies freed per call, about, in bytes. Freeing more would block the server.
local FREE_BYTES = 64 * 1024 * 1024

if limit == 0 then return { 0, '', 0 } end
if what == 'any' then index_arrivals(LOOK) end

-- A row ends after it was inserted, so rows inserted after the cut-off are not old enough and are not read.
local last = '(' .. int(math.floor(before / 1000) + 1) .. '-'
local keys, is_known, is_meant = {}, {}, {}
for _, index in ipairs(KINDS[what]) do
  is_meant[index] = true
  local part = redis.call('ZRANGEBYLEX', index, after == '' and '-' or '(' .. after, last, 'LIMIT', 0, LOOK)
  for _, key in ipairs(part) do
    if not is_known[key] then keys[#keys + 1], is_known[key] = key, true end
  end
end
table.sort(keys)

local ids = {}
for i = 1, math.min(#keys, LOOK) do ids[i] = id_of(keys[i]) end
local states, old, stale = fields_of(STATES, ids), {}, {}
for i, id in ipairs(ids) do
  local row = states[i] and read_state(states[i])
  if row and keys[i] == seq_key(row.place, id) and is_meant[ENDED[row.status] or WAITING] then
    local inserted = inserted_ms(row.place) * 1000
    local age_from = what == 'any' and inserted or tonumber(row.done_at) or inserted
    if age_from <= before then old[#old + 1] = { id = id, row = row, at = age_from, turn = i } end
  else
    -- Left over by a script that failed. The state is authoritative, so this member is removed.
    stale[#stale + 1] = keys[i]
  end
end
table.sort(old, function(a, b)
  if a.at ~= b.at then return a.at < b.at end
  return a.turn < b.turn
end)

local out, count, freed, most = batch(), 0, 0, math.min(#old, limit)
while count < most and freed < FREE_BYTES do
  count = count + 1
  local id, row = old[count].id, old[count].row
  local index = ENDED[row.status]
  if index then
    out.forget_ended(id, row.place, index)
  else
    out.unpark(id, row)
    out.forget_pending(id, row.place)
  end
  if archive and what ~= 'archived' then
    if row.done_at == '' then row.done_at = NOW end
    row.status, row.lease = '4', ''
    out.ended(id, row.place, ARCHIVED)
    out.state(id, state_text(row))
  else
    freed = freed + redis.call('HSTRLEN', ENTRIES, id)
    out.delete(id)
  end
end

for index in pairs(is_meant) do write('ZREM', index, stale) end
out.write()
record_audit(ARGV[6], 'purge', ARGV[7], count)
return { count, #ids == LOOK and keys[LOOK] or '', count < most and 1 or 0 }
