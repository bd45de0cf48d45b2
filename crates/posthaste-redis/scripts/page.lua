-- One page of rows in insertion order, for operators.
-- ARGV: now; after (a place, or empty for the start); limit; newest first (1 | 0); then the kinds to read: waiting,
-- done, dead, archived.
-- Returns: id, state, due time and body without payload of each row; 1 if there may be more, else 0; how many bytes of
-- bodies were read. There are fewer rows than `limit` where bodies are large.

local after, limit, is_reverse = ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
local INDEXES = { waiting = WAITING, done = DONE, dead = DEAD, archived = ARCHIVED }

local keys = {}
for i = 5, #ARGV do
  local index, part = INDEXES[ARGV[i]], nil
  if is_reverse then
    part = redis.call('ZREVRANGEBYLEX', index, after == '' and '+' or '(' .. after, '-', 'LIMIT', 0, limit)
  else
    -- `\255` sorts after every id at this place.
    part = redis.call('ZRANGEBYLEX', index, after == '' and '-' or '(' .. after .. '\255', '+', 'LIMIT', 0, limit)
  end
  for _, key in ipairs(part) do keys[#keys + 1] = key end
end
table.sort(keys, function(a, b)
  if is_reverse then return a > b end
  return a < b
end)

local ids = {}
for i = 1, math.min(#keys, limit) do ids[i] = id_of(keys[i]) end
local rows, looked, bytes = shown(ids, false)
return { rows, (looked < #ids or #ids == limit) and 1 or 0, bytes }
