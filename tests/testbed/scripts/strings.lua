-- strings.lua: the two-counter window as some libraries keep it in Redis, a string for
-- each window's number. What RL.COUNTER is measured against, where it is faster than
-- counter.lua.
--
-- KEYS[1] what both strings' names begin with
-- ARGV[1] limit
-- ARGV[2] window in ms
-- returns admitted (1 or 0), remaining
-- Cost: TIME and two reads; an admission counts, and the first of a window expires.

local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local number = math.floor(now / window)
local name = KEYS[1] .. ':' .. number
local current = tonumber(redis.call('GET', name) or 0)
local previous = tonumber(redis.call('GET', KEYS[1] .. ':' .. number - 1) or 0)
local used = math.floor(previous * (window - now % window) / window) + current
if used >= limit then return { 0, 0 } end
if redis.call('INCR', name) == 1 then redis.call('PEXPIRE', name, 2 * window) end
return { 1, limit - used - 1 }
