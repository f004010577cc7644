-- fixed.lua: a fixed window as applications usually keep it in Redis, a string that
-- expires. What RL.FIXED is measured against.
--
-- KEYS[1] the string
-- ARGV[1] limit
-- ARGV[2] window in ms
-- returns admitted (1 or 0), remaining
-- Cost: one command; the first of a window expires.

local limit = tonumber(ARGV[1])
local used = redis.call('INCR', KEYS[1])
if used == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return { used <= limit and 1 or 0, math.max(limit - used, 0) }
