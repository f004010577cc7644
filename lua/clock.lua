-- clock.lua: the time that all that one call does happens at.

-- clock_of returns the number given, in tests, or the node's own clock, in whole ms.
local function clock_of(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  local us = time[2] + 0
  return time[1] * 1000 + (us - us % 1000) / 1000
end
