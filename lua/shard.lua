-- shard.lua: a shard of a split key, which admits within what the home has lent it. The functions are those of
-- shard/lease/model/shard.go.
--
-- The table of a shard's lease record has incarnation and seq, and of its lease: pairs and strict, what it was lent for; held
-- and headroom, by window; taken, the ms at which it was taken; and lease, the ms at which it ends.
local lib = ...

local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local max, min, floor, concat = math.max, math.min, math.floor, table.concat
local layout, record, lease = lib.layout, lib.record, lib.lease
local SHARD, LEASE = layout.SHARD, lease.LEASE
local shard = {}
lib.shard = shard

-- live reports whether the shard may admit. While the clock is earlier than a time that the shard has already seen, it may not.
local function live(p, rec)
  return p ~= nil and p.taken <= rec.clock and rec.now <= rec.clock and rec.clock < p.lease
end

-- keep puts the table into the record in memory, to live until ending.
local function keep(rec, p, ending)
  local held, headroom = p.held[1] or 0, p.headroom[1] or 0
  lease.keep(rec, SHARD, p, ending, held, lease.limit(p.pairs) - held - headroom, p.taken, p.lease - 1)
end

local function fresh(incarnation, seq)
  return { incarnation = incarnation, seq = seq, pairs = '', strict = false, held = {}, headroom = {}, taken = 0, lease = 0 }
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

-- ask returns how many requests are granted, the room by window, the refusal, and whether the record has to be saved. The
-- refusal is empty if all requests are granted; else it is the clock 6, incarnation 6, seq 7, 1 if its lease has ended 1, and
-- then per window the units in use 6 and the ms until the first of them no longer counts 6.
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
  local refusal = { pack('>I6I6I7B', rec.clock, p.incarnation, p.seq, alive and 0 or 1) }
  if not alive then
    for i = 1, q.count do
      refusal[i + 1] = pack('>I6I6', uses[i], lease.first(rec, states[i], uses[i], q.strict))
    end
  end
  return granted, rooms, concat(refusal), kept
end

-- The function rl_take gives a loan to a shard, which takes it unless it is outdated. It may be sent any number of times, late
-- or never.
--
-- ARGV[2] seq 7 bytes, incarnation 6, clock 6 (of the refusal that it answers), strict 1, then per window the state's
--         name 11, limit 5, held 6, headroom at home 6
-- returns 1 byte: 1 if it was taken
-- Cost: O(windows), one write.
lib.take = record.guarded(function(key, clock, s)
  local seq, incarnation, asked, strict = unpack('>I7I6I6B', s)
  local rec = record.open(key, clock)
  local was = record.ends()
  local p, st = lease.open(rec, SHARD)
  if not p or incarnation ~= p.incarnation or seq <= p.seq or clock < asked or clock >= asked + LEASE then return '\0' end
  local names, ending = {}, st.ending -- a reset may have made it too short, see remember
  p.held, p.headroom = {}, {}
  for at = 21, #s, layout.NAME_BYTES + 12 do
    names[#names + 1] = sub(s, at, at + layout.NAME_BYTES - 1)
    p.held[#names], p.headroom[#names] = unpack('>I6I6', s, at + layout.NAME_BYTES)
    ending = max(ending, asked + 2 * LEASE + lease.life(names[#names]))
  end
  p.seq, p.pairs, p.strict, p.taken, p.lease = seq, concat(names), strict == 1, clock, asked + LEASE
  keep(rec, p, ending)
  record.save(was)
  return '\1'
end)

-- recall gives back unused units. It returns whether the recall is stale, and whether the table has changed.
local function recall(rec, p, seq, close)
  if seq < p.seq then return true, false end
  local changed = p.seq ~= seq or close and p.lease ~= 0
  p.seq = seq
  if close then p.lease = 0 end
  lease.each(p.pairs, function(i, name)
    local held = min(p.held[i], (lease.used(rec, name, p.strict)))
    changed = changed or held ~= p.held[i]
    p.held[i] = held
  end)
  return false, changed
end

-- What rl_recall is to do. Any other number: only report.
local RECALL, FORGET = 0, 1

-- The function rl_recall makes a shard give back what it has not used, or forget everything, or neither, and report. It may be
-- sent any number of times.
--
-- ARGV[2] what to do 1 byte (0: recall, 1: forget, 2: report only), seq 7, flags 1 (1: end the lease, 2: count in full),
--         then the names of states to report on, 11 each
-- returns seq 7, incarnation 6, flags 1 (1: stale, 2: its lease has ended, 4: counted in full), ms until its lease ends 6,
--         the clock 6, per state the units in use 6, ms until the first of them no longer counts 6, units held 6, limit as
--         last charged 5, rate 3, last 6, newest 6, see decide.lua
-- Cost: O(states), one write if something changes.
lib.recall = record.guarded(function(key, clock, s)
  local what, seq, flags = unpack('>BI7B', s)
  local close, strict, stale = flags % 2 == 1, flags >= 2, false
  if what == FORGET and not pcall(function() lease.open(record.open(key, clock), SHARD) end) then
    redis.call('UNLINK', key) -- it is damaged
  end
  local rec = record.open(key, clock)
  local was, changed = record.ends(), false
  local p, st = lease.open(rec, SHARD)
  if what == RECALL and p then
    stale, changed = recall(rec, p, seq, close)
    if changed then keep(rec, p, st.ending) end
  elseif what ~= RECALL then
    stale = p ~= nil and seq < p.seq
    if what == FORGET and not stale then
      p = fresh(p and p.incarnation or clock, seq)
      rec = record.load(key, clock, '')
      was, changed = 0, true
      keep(rec, p, clock + 2 * LEASE)
    end
  end
  local alive, held = live(p, rec), {}
  if p then lease.each(p.pairs, function(i, name) held[name] = p.held[i] end) end
  local out = { pack('>I7I6BI6I6', seq, p and p.incarnation or 0, (stale and 1 or 0) + (p and not stale and not alive and 2 or 0)
    + (strict and 4 or 0), alive and p.lease - clock or 0, clock) }
  for at = 10, #s, layout.STATE_BYTES do
    local name = sub(s, at, at + layout.STATE_BYTES - 1)
    local used, first, of = lease.used(rec, name, strict)
    out[#out + 1] = pack('>I6I6I6I5I3I6I6', used, first, held[name] or 0, of and of.limit or 0,
      of and lib.rate.at(clock, of.last, of.rate) or 0, of and of.reported_last or 0, of and of.reported_newest or 0)
  end
  if changed then record.save(was) end -- after this, states cannot be read any more
  return concat(out)
end)
