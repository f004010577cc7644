-- base.lua: what every script begins with. It is run by every call, so it makes only
-- what nearly every call needs.

-- What it costs a node is mostly calls of C functions: some 5,000 instructions for one of Redis, 500 for each field
-- that struct packs or unpacks, 400 for math.floor and max, and 5 for each byte of each new string. So fields that
-- stand beside each other are packed as one integer where they fit into 53 bits, or their low bits are zeros. A call
-- pays 450 for each function that it makes, and 500 for each local that functions capture: constants are none, see lua.go.

local call, unpack, pack = redis.call, struct.unpack, struct.pack
local sub, floor = string.sub, math.floor

local SLIDE, COUNTER, FIXED, THROTTLE, RESET, HOME, PART = 1, 2, 3, 4, 5, 6, 7
local WHOLE = 1024                 -- bytes read at first
local PREFIX = '1023'              -- the index of the last of them
local WRAP = 281474976710656       -- 2^48: running totals are kept modulo this
local ENTRY = 12                   -- bytes of a log entry: ms 6, running total 6
local NOTE = 75                    -- bytes of a note's header, see split.lua

-- one packs the reply to an entry with one window, see batch.lua.
local function one(granted, calls, used, retry, last, newest)
  if retry == 0 then return pack('>I8I6I12I6', granted * 16777216 + calls, used, last, newest) end
  return pack('>I8I6I6I6I6', granted * 16777216 + calls, used, retry, last, newest)
end

-- clock_of returns the number given, in tests, or the node's own clock, in whole ms.
local function clock_of(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  local us = time[2] + 0
  return time[1] * 1000 + (us - us % 1000) / 1000
end

-- count_call notes a charging call at now in the counts of the second of last, during,
-- and of the one before it.
local function count_call(now, last, before, during)
  local seconds = now - now % 1000 - last + last % 1000
  if seconds == 0 then return before, during < 65535 and during + 1 or during end
  return seconds == 1000 and during or 0, 1
end

-- calls_at is the charging calls of the second that ends at now.
local function calls_at(now, last, before, during)
  local elapsed, weighed = now - last + last % 1000, 0
  if elapsed < 1000 then
    weighed = before * (elapsed < 0 and 1000 or 1000 - elapsed)
    return (weighed - weighed % 1000) / 1000 + during
  end
  if elapsed < 2000 then weighed = during * (2000 - elapsed) end
  return (weighed - weighed % 1000) / 1000
end

-- text_of turns an expiry time into text. A batch mostly writes the same again and
-- again, and converting is slow.
local converted, text
local function text_of(ms)
  if ms ~= converted then converted, text = ms, string.format('%d', ms) end
  return text
end

-- lighter returns the least e, from e on, at which the oldest sub-window's units count at most left, e n-ths of a ms
-- into the newest, or window if there is none. It follows from the division, give or take one.
local function lighter(window, units, left, e)
  if units <= left then return e end
  local floor = math.floor
  e = math.max(e, floor(window - (left + 1) * window / units) + 1)
  while e > 0 and floor(units * (window - e + 1) / window) <= left do e = e - 1 end
  while e < window and floor(units * (window - e) / window) > left do e = e + 1 end
  return e
end
