-- batch.lua: answers a batch of many keys, each with a question and the number of
-- equal requests that ask it.
--
-- KEYS    the stored key of each entry, unless they are at the end of ARGV, as they have to be for a node of a
--         cluster, which has scripts declare keys of one slot only. It checks every key that is used.
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] per entry: index of its question in ARGV 2 bytes, requests 4 bytes; empty: each asks ARGV[3] once, and there
--         are no other questions
-- ARGV[3] and on, questions, see ask.lua
--         (kind RESET: delete the key; granted tells whether there was one)
-- returns one string: the clock 6 bytes, then per entry
--         0 1 byte, granted 4, rate 3, per pair used 6, retry 6, last 6, newest 6
--         (used: before the entry; retry: ms at which there is room for one more, 0 if
--         there is; last, newest: see slide.lua), or, when it failed and charged nothing,
--         1 1 byte, length 2, error, or, at the home of a split key,
--         2 1 byte, parts 2, 1 if the parts must be read before the rest is decided 1, then as 0 from granted on, or,
--         at a part, 3 1 byte, as 0 from granted on, length of the miss 2, the miss, see part.lua
-- Cost: O(entries); per entry two to five calls of Redis, see record.lua.

local clock, entries, keys, before, count = clock_of(ARGV[1]), ARGV[2], KEYS, 0, #KEYS
if count == 0 then
  count = entries == '' and #ARGV - 3 or #entries / 6
  keys, before = ARGV, #ARGV - count
end

local replies = { struct.pack('>I6', clock), nil }
while #replies <= count do
  local ok, why = pcall(decide, replies, entries, keys, before, count, clock)
  if not ok then -- of the entry after those that are done, which charged nothing
    if type(why) == 'table' then why = why.err end
    why = tostring(why)
    replies[#replies + 1] = struct.pack('>BI2', 1, #why) .. why
  end
end
return table.concat(replies)
