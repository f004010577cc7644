-- decide.lua: the loop of batch.lua over the entries of a call; it adds a reply for each that has none.
--
-- It is one function, which captures nothing and makes what a call needs when it needs it: a script begins anew with
-- each call, which pays for each function that it makes, each local that one captures, each table and each string, and
-- a second time when Lua collects them. So the way of nearly all, quick.lua, is no function but a part of the loop; the
-- others are functions with a base of their own: windows_of and long_of return the way itself, made once a call.

local spread, call, unpack, pack = unpack, redis.call, struct.unpack, struct.pack
local sub, format, floor = string.sub, string.format, math.floor
local questions, windows, long -- made when they are needed
local converted, expiry -- an expiry time and its text: a batch mostly writes the same, and converting is slow

include 'counts'

-- The question of the entry before, see ask.lua: what is read of it, its text from the kind to the limit, with which a
-- state begins, what a record begins with that has this state alone, and the index up to which a record is read. With
-- several windows it has a way of its own, and without a kind it goes the long way.
local asked, text, kind, cost, ask, strict, part, window, limit, named, shape, reach, several

for i = #replies, count do -- the clock is the first
  local index, requests, reply = 3, 1, nil
  if entries ~= '' then index, requests = unpack('>I2I4', entries, i * 6 - 5) end
  if index ~= asked then
    asked, text = index, ARGV[index]
    include 'question'
  end
  local key = keys[before + i]
  local s = call('GETRANGE', key, '0', reach)
  if several then
    reply = several(key, s, requests)
  elseif kind then
    include 'quick'
  end
  if not reply then
    long = long or long_of(clock)
    reply = long(text, key, s, requests)
  end
  replies[i + 1] = reply
end
