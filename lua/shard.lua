-- shard.lua: a shard of a split key, which admits within what the home has lent it. The functions are those of
-- shard/lease/model/shard.go.
--
-- The table of a shard's lease record has incarnation and seq, and of its lease: pairs and strict, what it was lent
-- for; held and headroom, by window; taken, the ms at which it was taken; and lease, the ms at which it ends.
local lib = ...

local pack = struct.pack
local max, min, floor, concat = math.max, math.min, math.floor, table.concat
local schema, record, lease = lib.schema, lib.record, lib.lease
local SHARD, LEASE = schema.SHARD, lease.LEASE
local shard = {}
lib.shard = shard

-- live reports whether the shard may admit. While the clock is earlier than a time that the shard has already seen, it
-- may not.
local function live(p, rec)
  return p ~= nil and p.taken <= rec.clock and rec.now <= rec.clock and rec.clock < p.lease
end

-- keep puts the table into the record in memory, to live until ending.
local function keep(rec, p, ending)
  local held, headroom = p.held[1] or 0, p.headroom[1] or 0
  lease.keep(rec, SHARD, p, ending,
    { bound = held, offset = lease.limit(p.pairs) - held - headroom, from = p.taken, till = p.lease - 1 })
end

local function fresh(incarnation, seq)
  return { incarnation = incarnation, seq = seq, pairs = '', strict = false, held = {}, headroom = {}, taken = 0,
    lease = 0 }
end

-- remember creates the lease record if there is none, and extends its life to as long as the home may count a loan that
-- answers this refusal. It returns the table, and whether the record has to be saved.
local function remember(rec, p, q)
  local clock, life = rec.clock, 0
  for _, name in ipairs(q.names) do life = max(life, lease.life(name)) end
  if p and rec.lease.ending >= clock + 2 * LEASE + life then return p, false end
  p = p or fresh(clock, 0)
  keep(rec, p, clock + 3 * LEASE + 2 * life)
  return p, true
end

-- ask returns how many requests are granted, the room by window, the refusal, and whether the record has to be saved.
-- The refusal is empty if all requests are granted; otherwise it is a message `refused`.
function shard.ask(rec, q, states, uses, requests)
  local p = lease.open(rec, SHARD)
  local alive, granted, rooms = live(p, rec), 0, {}
  if alive and p.pairs == q.pairs and p.strict == q.strict then
    granted = requests
    for i = 1, q.count do
      granted = max(min(granted, floor((p.held[i] - uses[i]) / q.needs)), 0)
      rooms[i] = max(p.held[i] - uses[i] + p.headroom[i], 0)
    end
  end
  if granted == requests then return granted, rooms, '', false end
  local kept
  p, kept = remember(rec, p, q)
  local refusal = { clock = rec.clock, incarnation = p.incarnation, seq = p.seq, ended = not alive, used = {} }
  local first = {}
  for i = 1, alive and 0 or q.count do
    refusal.used[i] = { state = q.names[i], units = uses[i] }
    first[i] = lease.first(rec, states[i], uses[i], q.strict)
  end
  return granted, rooms, cmsgpack.pack({ refusal = refusal, first = first }), kept
end

-- The function rl_take gives a `loan` to a shard, which takes it unless it is outdated. It may be sent any number of
-- times, late or never. It returns `taken`, see messages.lua.
--
-- Cost: O(windows), one write.
lib.take = record.guarded(function(key, clock, message)
  local loan, rec = cmsgpack.unpack(message), record.open(key, clock)
  local was, lapses = record.ends(), loan.clock + LEASE
  local p, st = lease.open(rec, SHARD)
  if not p or loan.incarnation ~= p.incarnation or loan.seq <= p.seq or clock < loan.clock or clock >= lapses then
    return cmsgpack.pack({ taken = false })
  end
  local list, ending = {}, st.ending -- a reset may have made it too short, see remember
  for i, pair in ipairs(loan.pairs) do
    list[i] = pair.state .. pack('>I5', pair.limit)
    ending = max(ending, lapses + LEASE + lease.life(pair.state))
  end
  p.seq, p.pairs, p.strict, p.held, p.headroom = loan.seq, concat(list), loan.strict, loan.held, loan.headroom
  p.taken, p.lease = clock, lapses
  keep(rec, p, ending)
  record.save(was)
  return cmsgpack.pack({ taken = true })
end)

-- give_back gives back unused units, as a recall says. It returns whether the recall is stale, and whether the table
-- has changed.
local function give_back(rec, p, recall)
  if recall.seq < p.seq then return true, false end
  local changed = p.seq ~= recall.seq or recall.end_lease and p.lease ~= 0
  p.seq = recall.seq
  if recall.end_lease then p.lease = 0 end
  lease.each(p.pairs, function(i, name)
    local held = min(p.held[i], (lease.used(rec, name, p.strict)))
    changed = changed or held ~= p.held[i]
    p.held[i] = held
  end)
  return false, changed
end

-- reported returns the message `reported` about the states that a recall names, without what is stale.
local function reported(rec, p, recall)
  local clock, alive, held, strict = rec.clock, live(p, rec), {}, recall.strict
  if p then lease.each(p.pairs, function(i, name) held[name] = p.held[i] end) end
  local m = {
    report = { shard = recall.shard, seq = recall.seq, strict = strict, incarnation = p and p.incarnation or 0,
      stale = false, ended = p ~= nil and not alive, used = {} },
    clock = clock, lease_left = alive and p.lease - clock or 0,
    first = {}, empty = {}, held = {}, limit = {}, rate = {},
  }
  for i, name in ipairs(recall.states) do
    local used, first, st = lease.used(rec, name, strict)
    m.report.used[i], m.first[i], m.held[i] = { state = name, units = used }, first, held[name] or 0
    m.empty[i], m.limit[i], m.rate[i] = 0, 0, 0
    if st then
      m.limit[i], m.rate[i] = st.limit, lib.rate.at(clock, st.last, st.rate)
      m.empty[i] = st.algorithm.empty_at(st, rec, strict)
    end
  end
  return m
end

-- The function rl_recall carries out an `order` at a shard: to give back what it has not used, or forget everything, or
-- neither, and to report. It may be sent any number of times. It returns `reported`, see messages.lua.
--
-- Cost: O(states), one write if something changes.
lib.recall = record.guarded(function(key, clock, message)
  local order = cmsgpack.unpack(message)
  local recall = order.recall
  if order.forget and not pcall(function() lease.open(record.open(key, clock), SHARD) end) then
    redis.call('UNLINK', key) -- it is damaged
  end
  local rec = record.open(key, clock)
  local was, stale, changed = record.ends(), false, false
  local p, st = lease.open(rec, SHARD)
  if order.forget or order.report then
    stale = p ~= nil and recall.seq < p.seq
  elseif p then
    stale, changed = give_back(rec, p, recall)
    if changed then keep(rec, p, st.ending) end
  end
  if order.forget and not stale then
    p = fresh(p and p.incarnation or clock, recall.seq)
    rec = record.load(key, clock, '')
    was, changed = 0, true
    keep(rec, p, clock + 2 * LEASE)
  end
  local m = reported(rec, p, recall)
  m.report.stale, m.report.ended = stale, m.report.ended and not stale
  if changed then record.save(was) end -- after this, states cannot be read any more
  return cmsgpack.pack(m)
end)
