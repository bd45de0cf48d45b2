-- Counts the rows of each kind, and samples up to `limit` pending rows by their state.
-- ARGV: now; after (where the sample starts: a member of `waiting`, or `#rank`, or empty for the start); limit.
-- Returns: { waiting, done, dead, archived, arrivals }; { new, retry, due, leased, parked, scheduled } of the sample;
-- the member to continue after, or empty at the end.

local after, limit = ARGV[2], tonumber(ARGV[3])
local rank, keys = tonumber(string.match(after, '^#(%d+)$')), nil
if rank then
  keys = redis.call('ZRANGE', WAITING, int(rank), int(rank + limit - 1))
else
  keys = redis.call('ZRANGEBYLEX', WAITING, after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, limit)
end

local new, retry, due, leased, parked, scheduled = 0, 0, 0, 0, 0, 0
for first = 1, #keys, CHUNK do
  local ids = {}
  for i = first, math.min(first + CHUNK - 1, #keys) do ids[#ids + 1] = id_of(keys[i]) end
  local states, scores = fields_of(STATES, ids), redis.call('ZMSCORE', PENDING, unpack(ids))
  for i = 1, #ids do
    local row, score = read_state(states[i] or ''), tonumber(scores[i] or 0)
    if row.status == '2' then retry = retry + 1 else new = new + 1 end
    if score <= now then
      due = due + 1
    elseif row.lease ~= '' then
      leased = leased + 1
    elseif row.parked ~= '' then
      parked = parked + 1
    else
      scheduled = scheduled + 1
    end
  end
end

local kinds = {
  redis.call('ZCARD', WAITING), redis.call('ZCARD', DONE), redis.call('ZCARD', DEAD),
  redis.call('ZCARD', ARCHIVED), redis.call('XLEN', ARRIVALS),
}
local states = { new, retry, due, leased, parked, scheduled }
return { kinds, states, limit > 0 and #keys == limit and keys[#keys] or '' }
