-- batch.lua: answers a batch of many keys, each with a question and the number of
-- equal requests that ask it.
--
-- KEYS    the stored key of each entry, unless they are at the end of ARGV, as they have to be for a node of a
--         cluster, which has scripts declare keys of one slot only. It checks every key that is used.
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] per entry: index of its question in ARGV 2 bytes, requests 4 bytes; empty: each asks ARGV[3] once, and there
--         are no other questions
-- ARGV[3] and on, questions, see base.lua
--         (kind RESET: delete the key; granted tells whether there was one)
-- returns one string: the clock 6 bytes, then per entry
--         0 1 byte, granted 4, rate 3, per pair used 6, retry 6, last 6, newest 6
--         (used: before the entry; retry: ms at which there is room for one more, 0 if
--         there is; last, newest: see slide.lua), or, when it failed and charged nothing,
--         1 1 byte, length 2, error, or, at the home of a split key,
--         2 1 byte, parts 2, 1 if the parts must be read before the rest is decided 1, then as 0 from granted on, or,
--         at a part, 3 1 byte, as 0 from granted on, length of the miss 2, the miss, see part.lua
-- Cost: O(entries); per entry two to five calls of Redis, see record.lua.

local clock = clock_of(ARGV[1])

local questions, quicks = {}, {}
local function question(i)
  local q = ask_of(ARGV[i])
  local kind = q.kind
  if kind == COUNTER and q.buckets > 1 then -- always the long way
  elseif q.window then
    -- The first 12 bytes of a record with one state of this name, whose head is as long. A part's has a note.
    q.shape = not q.part and pack('>BI3BI2I5', 1, kind == SLIDE and 54 or 33, kind, q.buckets, q.window)
    q.quick = quicks[kind] or quick_of(kind, clock)
    quicks[kind] = q.quick
  elseif q.pairs[2] and not q.part then
    q.quick = windows_of(q, clock)
  end
  questions[i] = q
  return q
end

local entries, keys, before, count = ARGV[2], KEYS, 0, #KEYS
if count == 0 then
  count = entries == '' and #ARGV - 3 or #entries / 6
  keys, before = ARGV, #ARGV - count
end

-- decide adds a reply for each entry that has none.
local long
local function decide(replies, entries, keys, before, count)
  for i = #replies, count do -- the clock is the first
    local index, requests = 3, 1
    if entries ~= '' then index, requests = unpack('>I2I4', entries, i * 6 - 5) end
    local key = keys[before + i]
    local q, s, reply = questions[index] or question(index), call('GETRANGE', key, '0', PREFIX), nil
    if q.quick and (#s < WHOLE or q.kind == SLIDE) then
      reply = q.shape and q.quick(q, key, s, requests) or noted(q, key, s, requests, clock)
    end
    if not reply then
      long = long or general(clock)
      reply = long(q, key, s, requests)
    end
    replies[i + 1] = reply
  end
end

local replies = { pack('>I6', clock) }
while #replies <= count do
  local ok, why = pcall(decide, replies, entries, keys, before, count)
  if not ok then -- of the entry after those that are done, which charged nothing
    if type(why) == 'table' then why = why.err end
    why = tostring(why)
    replies[#replies + 1] = pack('>BI2', 1, #why) .. why
  end
end
return table.concat(replies)
