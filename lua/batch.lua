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

-- question reads a question, see ask.lua, and finds its short way: with one window of a function for each kind, which
-- are kept in quicks. Without one it has but its text.
local function question(text, clock, quicks)
  local length = #text
  if length % 10 > 0 or length == 10 then return { text = text } end
  local cost, flags, kind, buckets, window, limit = unpack('>I6BBI2I5I5', text)
  if kind == COUNTER and buckets > 1 then return { text = text } end
  local strict, part = flags % 2 == 1, flags >= 2
  if length > 20 then
    local q = { text = text, kind = kind, cost = cost, strict = strict }
    if not part then q.quick = windows_of(q, clock) end
    return q
  end
  local quick = quicks[kind] or quick_of(kind, clock)
  quicks[kind] = quick
  -- What a record begins with that has one state of this name; a part's has a note.
  local start = (kind == SLIDE and '\1\0\0\54' or '\1\0\0\33') .. sub(text, 8)
  -- All fields at once: a table that grows is made anew several times.
  return { text = text, kind = kind, cost = cost, ask = cost > 0 and cost or 1, strict = strict, part = part,
    limit = limit, window = window, start = start, shape = not part and sub(start, 1, 12), quick = quick }
end

-- decide adds a reply for each entry that has none.
local function decide(replies, entries, keys, before, count, clock)
  local questions, quicks, long = { false, false, false }, { false, false, false }, nil
  for i = #replies, count do -- the clock is the first
    local index, requests, reply = 3, 1, nil
    if entries ~= '' then index, requests = unpack('>I2I4', entries, i * 6 - 5) end
    local q = questions[index]
    if not q then
      q = question(ARGV[index], clock, quicks)
      questions[index] = q
    end
    local key, quick = keys[before + i], q.quick
    local s = call('GETRANGE', key, '0', PREFIX)
    if quick then
      reply = q.shape and quick(q, key, s, requests) or noted(q, key, s, requests, clock)
    end
    if not reply then
      long = long or general(clock)
      reply = long(q.text, key, s, requests)
    end
    replies[i + 1] = reply
  end
end

local clock, entries, keys, before, count = clock_of(ARGV[1]), ARGV[2], KEYS, 0, #KEYS
if count == 0 then
  count = entries == '' and #ARGV - 3 or #entries / 6
  keys, before = ARGV, #ARGV - count
end

local replies = { pack('>I6', clock), nil }
while #replies <= count do
  local ok, why = pcall(decide, replies, entries, keys, before, count, clock)
  if not ok then -- of the entry after those that are done, which charged nothing
    if type(why) == 'table' then why = why.err end
    why = tostring(why)
    replies[#replies + 1] = pack('>BI2', 1, #why) .. why
  end
end
return table.concat(replies)
