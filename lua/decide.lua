-- decide.lua: answers a batch of many keys, each with a question and the number of
-- equal requests that ask it.
--
-- KEYS    the stored key of each entry
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] per entry: index of its question in ARGV 2 bytes, requests 4 bytes
-- ARGV[3] and on, questions: kind 1, cost 6, buckets 2, strict 1, then limit 5 and
--         window 5 per pair
--         (kind THROTTLE: instead of pairs interval 8, tolerance 8, increment 8, see throttle.lua)
--         (kind RESET: delete the key; granted tells whether there was one)
-- returns one string: the clock 6 bytes, then per entry
--         0 1 byte, granted 4, rate 3, per pair used 6, retry 6, last 6, newest 6
--         (used: before the entry; retry: ms at which there is room for one more, 0 if
--         there is; last, newest: see slide.lua), or, when it failed and charged nothing,
--         1 1 byte, length 2, error
-- Cost: O(entries); per entry two to five calls of Redis, see record.lua.

local clock = clock_of(ARGV[1])

local questions = {}
local function question(i)
  local q = questions[i]
  if not q then
    local s = ARGV[i]
    q = { pairs = {} }
    q.kind, q.cost, q.buckets, q.strict = unpack('>BI6I2B', s)
    q.ask, q.strict = max(q.cost, 1), q.strict == 1
    if q.kind == THROTTLE then q.interval, q.tolerance, q.increment = unpack('>I8I8I8', s, 11) end
    for at = 11, q.kind == THROTTLE and 0 or #s, 10 do
      local limit, window = unpack('>I5I5', s, at)
      q.pairs[#q.pairs + 1] = { limit, window }
    end
    if #q.pairs == 1 then
      q.limit, q.window = q.pairs[1][1], q.pairs[1][2]
      q.shape = pack('>BI3BI2I5', 1, 4 + HEADER_BYTES + ADD_BYTES[q.kind], q.kind, q.buckets, q.window)
    end
    questions[i] = q
  end
  return q
end

local function decide(key, index, requests)
  local q = question(index)
  if q.kind == RESET then
    call('PUBLISH', 'rl:reset', key) -- to proxies that remember denials
    return pack('>BI4I3', 0, call('UNLINK', key), 0)
  end
  local algorithm, s = algorithms[q.kind], read(key)
  if algorithm.decide then return algorithm.decide(q, key, s, clock, requests) end
  if q.shape and #s < WHOLE then
    local reply = algorithm.quick(q, key, s, clock, requests)
    if reply then return reply end
  end
  local rec = load(key, clock, s)
  local sts, uses, granted = {}, {}, requests
  for i, pair in ipairs(q.pairs) do
    local st = find(rec, q.kind, pair[2], q.buckets) or algorithm.fresh(pair[2], q.buckets)
    sts[i], uses[i] = st, algorithm.used(rec, st, q.strict)
    granted = max(min(granted, floor((pair[1] - uses[i]) / q.ask)), 0)
  end
  -- A question without cost is answered alike to all who ask it.
  local units = granted * q.cost
  if units > 0 then
    for i, pair in ipairs(q.pairs) do
      local st = sts[i]
      if not st[OFFSET] then rec.states[#rec.states + 1] = st end
      algorithm.charge(rec, st, pair[1], units)
      st[BEFORE], st[DURING] = count_call(rec.now, st[LAST], st[BEFORE], st[DURING])
      st[LAST], st[LIMIT] = rec.now, pair[1]
    end
  elseif q.cost == 0 and granted > 0 then
    granted = requests
  end
  local out, calls = {}, 0
  for i, pair in ipairs(q.pairs) do
    local st, over, ms = sts[i], uses[i] + units + q.ask - pair[1], 0
    if granted < requests and over > 0 then ms = algorithm.retry(rec, st, over, pair[1] - q.ask, q.strict) end
    calls = max(calls, calls_at(clock, st[LAST], st[BEFORE], st[DURING]))
    local last, newest = algorithm.last(st)
    out[i] = pack('>I6I6I6I6', uses[i], ms, last, newest)
  end
  if units > 0 then save(rec, clock) end
  return pack('>BI4I3', 0, granted, calls) .. table.concat(out)
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
