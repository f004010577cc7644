-- list.lua: a moving window as some libraries keep it in Redis, a list of the times of
-- the newest admissions, newest first. What RL.SLIDE is measured against, where it is
-- faster than log.lua.
--
-- KEYS[1] the list
-- ARGV[1] limit
-- ARGV[2] window in ms
-- returns admitted (1 or 0)
-- Cost: TIME and one element; an admission pushes, trims and expires.

local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local oldest = redis.call('LINDEX', KEYS[1], limit - 1)
if oldest and tonumber(oldest) >= now - window * 1000 then return 0 end
redis.call('LPUSH', KEYS[1], now)
redis.call('LTRIM', KEYS[1], 0, limit - 1)
redis.call('PEXPIRE', KEYS[1], window)
return 1
