-- Function `posthaste_enqueue` for the service's own scripts: stores one event in the same atomic step.
-- It uses two keys from KEYS[key] on and five arguments from ARGV[arg] on.
-- Returns the stream id of the event, or false if its id exists already. Call it before your script's first write: it
-- raises an error if a key has the wrong type, and Redis does not undo what a script wrote before an error.
local function posthaste_enqueue(key, arg)
  local entries, arrivals, id = KEYS[key], KEYS[key + 1], ARGV[arg]
  for name, expected in pairs({ [entries] = 'hash', [arrivals] = 'stream' }) do
    local found = redis.call('TYPE', name).ok
    if found ~= 'none' and found ~= expected then
      error({ err = 'WRONGKEY ' .. name .. ' is a ' .. found .. ', not a ' .. expected })
    end
  end
  if redis.call('HSETNX', entries, id, ARGV[arg + 1]) == 0 then return false end
  local wait, owner, token = ARGV[arg + 2], ARGV[arg + 3], ARGV[arg + 4]
  if token ~= '' then
    return redis.call('XADD', arrivals, '*', 'i', id, 'l', wait .. ' ' .. token .. ' ' .. owner)
  end
  return redis.call('XADD', arrivals, '*', 'i', id, 'd', wait)
end
