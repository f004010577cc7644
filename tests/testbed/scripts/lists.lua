-- lists.lua: list.lua for several windows, all of which must have room. One list serves
-- them all.
--
-- KEYS[1] the list
-- ARGV[1] limit, ARGV[2] window in ms, and so on
-- returns admitted (1 or 0)
-- Cost: TIME and one element a window; an admission pushes, trims and expires.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local most, longest = 0, 0
for i = 1, #ARGV, 2 do
  local limit, window = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
  local oldest = redis.call('LINDEX', KEYS[1], limit - 1)
  if oldest and tonumber(oldest) >= now - window * 1000 then return 0 end
  most, longest = math.max(most, limit), math.max(longest, window)
end
redis.call('LPUSH', KEYS[1], now)
redis.call('LTRIM', KEYS[1], 0, most - 1)
redis.call('PEXPIRE', KEYS[1], longest)
return 1
