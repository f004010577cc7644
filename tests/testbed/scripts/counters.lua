-- counters.lua: counter.lua for several windows, all of which must have room. One hash
-- has the counters of all windows.
--
-- KEYS[1] the hash
-- ARGV[1] limit, ARGV[2] window in ms, and so on
-- returns admitted (1 or 0)
-- Cost: TIME and one read; an admission writes and expires.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fields = {}
for i = 2, #ARGV, 2 do
  local window = ARGV[i]
  fields[#fields + 1] = window .. 'n'
  fields[#fields + 1] = window .. 'c'
  fields[#fields + 1] = window .. 'p'
end
local state = redis.call('HMGET', KEYS[1], unpack(fields))
local written, longest = {}, 0
for i = 1, #ARGV, 2 do
  local limit, window = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
  local at = (i - 1) / 2 * 3
  local number = math.floor(now / window)
  local current, previous = 0, 0
  if state[at + 1] == tostring(number) then
    current, previous = tonumber(state[at + 2]), tonumber(state[at + 3])
  elseif state[at + 1] == tostring(number - 1) then
    previous = tonumber(state[at + 2])
  end
  if math.floor(previous * (window - now % window) / window) + current >= limit then return 0 end
  for j, value in ipairs({ number, current + 1, previous }) do
    written[#written + 1] = fields[at + j]
    written[#written + 1] = value
  end
  longest = math.max(longest, window)
end
redis.call('HSET', KEYS[1], unpack(written))
redis.call('PEXPIRE', KEYS[1], 2 * longest)
return 1
