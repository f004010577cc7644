-- gcra.lua: GCRA as applications usually keep it in Redis, a string with the time at
-- which everything that was admitted has drained. What CL.THROTTLE is measured against.
--
-- KEYS[1] the string
-- ARGV[1] how many more than one may come at once
-- ARGV[2] how many in a period
-- ARGV[3] the period in s
-- returns admitted (1 or 0), ms until there is room
-- Cost: TIME and one read; an admission writes.

local interval = ARGV[3] * 1000 / ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local drained = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now) + interval
local wait = drained - now - (ARGV[1] + 1) * interval
if wait > 0 then return { 0, math.ceil(wait) } end
redis.call('SET', KEYS[1], drained, 'PX', math.ceil(drained - now))
return { 1, 0 }
