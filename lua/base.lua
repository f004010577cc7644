-- base.lua: what every script but decide.lua begins with, and every way that is a function there.

-- What it costs a node is mostly calls of C functions: some 5,000 instructions for one of Redis, 500 for each field
-- that struct packs or unpacks, 400 for math.floor and max, and 5 for each byte of each new string. So fields that
-- stand beside each other are packed as one integer where they fit into 53 bits, or their low bits are zeros. What a
-- call makes costs it twice, as Lua collects it: 450 for each function, 500 for each local that functions capture, 5,000
-- for a table with ten names. Constants are no locals, see lua.go.

local call, unpack, pack = redis.call, struct.unpack, struct.pack
local sub, floor = string.sub, math.floor

local SLIDE, COUNTER, FIXED, THROTTLE, RESET, HOME, PART = 1, 2, 3, 4, 5, 6, 7
local WHOLE = 512                  -- bytes read at first
local PREFIX = '511'               -- the index of the last of them
local WRAP = 281474976710656       -- 2^48: running totals are kept modulo this
local ENTRY = 12                   -- bytes of a log entry: ms 6, running total 6
local NOTE = 75                    -- bytes of a note's header, see split.lua
local HEAD = 129                   -- bytes of the head of a log's record with a note

-- piece_of returns the bytes from which on a record is too long to be read and written in one piece, by the length of its
-- head. Patching takes two calls of Redis for each log, so it pays later for many.
local function piece_of(length)
  return length > HEAD and WHOLE + 7 * (length - HEAD) or WHOLE
end

-- text_of turns an expiry time into text. A batch mostly writes the same again and
-- again, and converting is slow.
local converted, text
local function text_of(ms)
  if ms ~= converted then converted, text = ms, string.format('%d', ms) end
  return text
end
