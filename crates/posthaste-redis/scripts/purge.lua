-- Removes or archives old rows.
-- ARGV: now, what (done | dead | archived | any), older_than, archive (1 | 0), limit, actor, target.
-- Answers how many.

local what, before = ARGV[2], now - tonumber(ARGV[3])
local archive, limit = ARGV[4] == '1', tonumber(ARGV[5])

local INDEXES = { ['1'] = { DONE, DONE_SEQ }, ['3'] = { DEAD, DEAD_SEQ }, ['4'] = { ARCHIVED, ARCHIVED_SEQ } }
local BY_TIME = { done = DONE, dead = DEAD, archived = ARCHIVED }

-- The oldest by insertion, whatever became of them.
local function by_insertion()
  promote(math.max(limit, CHUNK))
  local ids = {}
  local last = '(' .. string.format('%014.0f-', math.floor(before / 1000) + 1)
  for _, index in ipairs({ WAITING, DONE_SEQ, DEAD_SEQ }) do
    for _, key in ipairs(redis.call('ZRANGEBYLEX', index, '-', last, 'LIMIT', 0, limit - #ids)) do
      ids[#ids + 1] = id_of(key)
    end
  end
  return ids
end

local ids
if limit == 0 then
  ids = {}
elseif what == 'any' then
  ids = by_insertion()
else
  ids = redis.call('ZRANGEBYSCORE', BY_TIME[what], '-inf', int(before), 'LIMIT', 0, limit)
end

local states, out = fields_of(STATE, ids), batch()
for i, id in ipairs(ids) do
  local row = read_state(states[i] or '')
  local ended = INDEXES[row.status]
  if ended then out.forget_ended(id, row, ended[1], ended[2]) end
  if not is_terminal(row) then
    out.unpark(id, row)
    out.forget_pending(id, row)
  end
  if archive and what ~= 'archived' then
    if row.done_at == '' then row.done_at = int(now) end
    row.status, row.token, row.locked_at, row.owner = '4', '', '', ''
    out.ended(id, row, ARCHIVED, ARCHIVED_SEQ)
    out.state(id, row)
  else
    out.delete(id)
  end
end

out.write()
note(ARGV[6], 'purge', ARGV[7], #ids)
return #ids
