-- log.lua: a sliding-window log as applications usually keep it in Redis, a sorted
-- set with a member per admission. What RL.SLIDE is measured against.
--
-- KEYS[1] the set
-- ARGV[1] limit
-- ARGV[2] window in ms
-- returns admitted (1 or 0), remaining
-- Cost: TIME, trim and count; an admission adds and expires.
--
-- Members do not collide: two of one microsecond find different counts.

local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window * 1000)
local count = redis.call('ZCARD', KEYS[1])
if count >= limit then return { 0, 0 } end
redis.call('ZADD', KEYS[1], now, string.format('%.0f-%d', now, count))
redis.call('PEXPIRE', KEYS[1], window)
return { 1, limit - count - 1 }
