-- ask.lua: the question that scripts are asked, and what it does to a record.
--
--   question  cost 6 bytes, flags 1 (1: strict, 2: at a part), kind 1, buckets 2, then per pair window 5, limit 5
--             (kind THROTTLE: instead of pairs interval 8, tolerance 8, increment 8)
--
-- From the kind to the first limit it has the bytes of a state's header.

-- ask_of reads a question.
local function ask_of(s)
  local cost, flags, kind, buckets = unpack('>I6BBI2', s)
  local q = { kind = kind, cost = cost, buckets = buckets, ask = cost > 0 and cost or 1, strict = flags % 2 == 1,
    part = flags >= 2, pairs = {} }
  if kind == THROTTLE then
    q.interval, q.tolerance, q.increment = unpack('>I8I8I8', s, 11)
  else
    for at = 11, #s, 10 do
      local window, limit = unpack('>I5I5', s, at)
      q.pairs[#q.pairs + 1] = { limit, window }
    end
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
