-- decide.lua: answers a batch of many keys, each with a question and the number of
-- equal requests that ask it.
--
-- KEYS    the stored key of each entry
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] per entry: index of its question in ARGV 2 bytes, requests 4 bytes
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

local clock = clock_of(ARGV[1])

local questions = {}
local function question(i)
  local q = questions[i]
  if not q then
    q = ask_of(ARGV[i])
    if #q.pairs == 1 and not q.part then
      q.limit, q.window = q.pairs[1][1], q.pairs[1][2]
      q.shape = pack('>BI3BI2I5', 1, 4 + HEADER_BYTES + ADD_BYTES[q.kind], q.kind, q.buckets, q.window)
    end
    questions[i] = q
  end
  return q
end

-- lent returns the home's note of a split key of which parts hold something, else nothing.
local function lent(rec)
  if not find(rec, HOME, 0, 1) then return end
  local h = homes().open(rec, clock)
  if h and #h.lent > 0 then return h end
end

local function reset(key)
  local h = lent(load(key, clock, read(key)))
  if h then return pack('>BI2BI4I3', 2, h.parts, 1, 1, 0) end
  call('PUBLISH', 'rl:reset', key) -- to proxies that remember denials
  return pack('>BI4I3', 0, call('UNLINK', key), 0)
end

local function decide(key, index, requests)
  local q = question(index)
  if q.kind == RESET then return reset(key) end
  local algorithm, s = algorithms[q.kind], read(key)
  if algorithm.decide then return algorithm.decide(q, key, s, clock, requests) end
  if q.shape and #s < WHOLE then
    local reply = algorithm.quick(q, key, s, clock, requests)
    if reply then return reply end
  end
  local rec = load(key, clock, s)
  local sts, uses = measure(rec, q)
  local h, granted, kept, open, miss = nil, requests, false, false, ''
  if q.part then
    local rooms
    granted, rooms, miss, kept = parts().ask(rec, clock, q, sts, uses, requests)
    for i, pair in ipairs(q.pairs) do uses[i] = pair[1] - (rooms[i] or 0) end
  else
    h = lent(rec)
    if h then
      local room, recalls
      granted, room, recalls = homes().decide(h, clock, q, uses, requests, nil, 0, {})
      for i, pair in ipairs(q.pairs) do uses[i] = pair[1] - room[i] end
      open = #recalls > 0 and granted < requests or q.cost == 0
    else
      for i, pair in ipairs(q.pairs) do granted = max(min(granted, floor((pair[1] - uses[i]) / q.ask)), 0) end
    end
  end
  -- A question without cost is answered alike to all who ask it.
  local units = granted * q.cost
  if units > 0 then
    charge_all(rec, q, sts, units)
  elseif q.cost == 0 and granted > 0 then
    granted = requests
  end
  local out, calls = {}, 0
  for i, pair in ipairs(q.pairs) do
    local st, over, ms = sts[i], uses[i] + units + q.ask - pair[1], 0
    if granted < requests and over > 0 and not open and not q.part then
      ms = algorithm.retry(rec, st, over, pair[1] - q.ask, q.strict)
    end
    calls = max(calls, calls_at(clock, st[LAST], st[BEFORE], st[DURING]))
    local last, newest = algorithm.last(st)
    out[i] = pack('>I6I6I6I6', uses[i], ms, last, newest)
  end
  if units > 0 or kept then save(rec, clock) end
  local verdicts = table.concat(out)
  if h then return pack('>BI2BI4I3', 2, h.parts, open and 1 or 0, granted, calls) .. verdicts end
  if q.part then return pack('>BI4I3', 3, granted, calls) .. verdicts .. pack('>I2', #miss) .. miss end
  return pack('>BI4I3', 0, granted, calls) .. verdicts
end

local replies, entries = { pack('>I6', clock) }, ARGV[2]
for i, key in ipairs(KEYS) do
  local index, requests = unpack('>I2I4', entries, i * 6 - 5)
  local ok, reply = pcall(decide, key, index, requests)
  if not ok then
    local why = type(reply) == 'table' and reply.err or tostring(reply)
    reply = pack('>BI2', 1, #why) .. why
  end
  replies[i + 1] = reply
end
return table.concat(replies)
