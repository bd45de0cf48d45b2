-- Stores one event of Posthaste: two keys from KEYS[key] on, five arguments from ARGV[arg] on.
-- Returns where it stands, or false if its id was written before. Call it before your first write.
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
