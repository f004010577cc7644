-- counter.lua: the two-counter window as applications usually keep it in Redis, a
-- hash with the window's number and both counters. What RL.COUNTER is measured against.
--
-- KEYS[1] the hash
-- ARGV[1] limit
-- ARGV[2] window in ms
-- returns admitted (1 or 0), remaining
-- Cost: TIME and one read; an admission writes and expires.

local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local number = math.floor(now / window)
local state = redis.call('HMGET', KEYS[1], 'number', 'current', 'previous')
local current, previous = 0, 0
if state[1] == tostring(number) then
  current, previous = tonumber(state[2]), tonumber(state[3])
elseif state[1] == tostring(number - 1) then
  previous = tonumber(state[2])
end
local used = math.floor(previous * (window - now % window) / window) + current
if used >= limit then return { 0, 0 } end
redis.call('HSET', KEYS[1], 'number', number, 'current', current + 1, 'previous', previous)
redis.call('PEXPIRE', KEYS[1], 2 * window)
return { 1, limit - used - 1 }
