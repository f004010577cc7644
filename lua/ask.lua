-- ask.lua: the question that scripts are asked, and what it does to a record.

-- ask_of reads a question: kind 1, cost 6, buckets 2, flags 1 (1: strict, 2: at a part), then limit 5 and
-- window 5 per pair (kind THROTTLE: instead of pairs interval 8, tolerance 8, increment 8).
local function ask_of(s)
  local q, flags = { pairs = {} }, 0
  q.kind, q.cost, q.buckets, flags = unpack('>BI6I2B', s)
  q.ask, q.strict, q.part = max(q.cost, 1), flags % 2 == 1, flags >= 2
  if q.kind == THROTTLE then q.interval, q.tolerance, q.increment = unpack('>I8I8I8', s, 11) end
  for at = 11, q.kind == THROTTLE and 0 or #s, 10 do
    local limit, window = unpack('>I5I5', s, at)
    q.pairs[#q.pairs + 1] = { limit, window }
  end
  return q
end

-- measure returns the states that a question is about, and what counts of each.
local function measure(rec, q)
  local algorithm, sts, uses = algorithms[q.kind], {}, {}
  for i, pair in ipairs(q.pairs) do
    local st = find(rec, q.kind, pair[2], q.buckets) or algorithm.fresh(pair[2], q.buckets)
    sts[i], uses[i] = st, algorithm.used(rec, st, q.strict)
  end
  return sts, uses
end

-- charge_all admits units to every state.
local function charge_all(rec, q, sts, units)
  local algorithm = algorithms[q.kind]
  for i, pair in ipairs(q.pairs) do
    local st = sts[i]
    if not st[OFFSET] then rec.states[#rec.states + 1] = st end
    algorithm.charge(rec, st, pair[1], units)
    st[BEFORE], st[DURING] = count_call(rec.now, st[LAST], st[BEFORE], st[DURING])
    st[LAST], st[LIMIT] = rec.now, pair[1]
  end
end
