-- ask.lua: the question that scripts are asked, and what it does to a record.

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
