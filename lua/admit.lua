-- admit.lua: the function rl_admit answers one request with an id, which is charged once, or holds units that are charged
-- later. The same id again is answered as it was at first.
--
-- KEYS[1] the stored key
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] the spec, see spec.lua; of RL.ACQUIRE it has the kind CONCURRENCY, 1 bucket, and one window of 0 ms with the
--         slots as limit
-- ARGV[3] the rider: what 1 byte (0: charge once, 1: hold), digest of the id 16, ms for which units are held at most 5,
--         flags 1 (1: forget what lapses)
-- returns again 1; if that is 1, the length of a spec 1 and the spec: that of which the answer speaks; then the clock 6 and
--         the reply of one entry, see decide.lua
-- Cost: as rl_decide, and a call of Redis to read the id and one to write it.
local lib = ...

local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local layout, record, spec, ids, holds = lib.layout, lib.record, lib.spec, lib.ids, lib.holds
local straight, CONCURRENCY, SLIDE, DECIDED = lib.straight, layout.CONCURRENCY, layout.SLIDE, layout.DECIDED
local rider = {}
lib.rider = rider

-- remembered returns what is remembered of a hold, and written is the inverse: 1 if it is settled 1 byte, 1 if it is
-- released when it lapses 1, ms that it lasts 5, the cost with which it was settled 6, the length of its spec 1, the
-- spec, and the clock and reply of the first answer, which RL.ACQUIRE does not have.
function rider.remembered(s)
  local settled, release, ttl, cost, bytes = unpack('>BBI5I6B', s)
  return settled == 1, release == 1, ttl, cost, sub(s, 15, 14 + bytes), sub(s, 15 + bytes)
end

function rider.written(settled, release, ttl, cost, text, answer)
  return pack('>BBI5I6B', settled and 1 or 0, release and 1 or 0, ttl, cost, #text) .. text .. answer
end

-- The rider in memory:
--   once      reports whether it is to be charged once
--   ttl       ms for which units are held
--   release   reports whether what lapses is forgotten
--   id        what is known of the id
local r = { once = false, ttl = 0, release = false, id = false }

-- take holds units in place of lib.charge, which it calls to charge once.
function r.take(rec, q, states, units)
  ids.admits(rec.now)
  if r.once then return lib.charge(rec, q, states, units) end
  r.id.till = holds.deadline(rec.now, r.ttl)
  holds.add(rec, q, r.id.till, units, r.release, states)
  return true
end

-- open reads a rider and what is known of its id.
function rider.open(text, q, key, clock)
  local what, digest, ttl, flags = unpack('>Bc16I5B', text)
  r.once, r.ttl, r.release = what == 0, ttl, flags % 2 == 1 or q.kind ~= SLIDE
  r.id = ids.open(key, digest, r.once and ids.ONCE or q.kind == CONCURRENCY and ids.LEASE or ids.RESERVATION, clock)
  return r
end

-- renew lets what RL.ACQUIRE holds last from now on for a length of time. It returns the spec of what is held, with the
-- slots that are asked for now, if any are; or nothing if it is not held any more.
function rider.renew(rec, id, ttl, slots)
  if not id.found then return end
  local _, release, _, _, text = rider.remembered(id.found)
  local q = spec.of(slots and sub(text, 1, -6) .. pack('>I5', slots) or text)
  if not holds.out(q, id.till, q.cost, release) then return end
  local was, till = record.ends(), holds.deadline(rec.now, ttl)
  holds.remove(rec, q, id.till, q.cost, release)
  holds.add(rec, q, till, q.cost, release)
  record.save(was)
  ids.keep(rec.now, till, rider.written(false, release, ttl, 0, q.text, ''))
  return q
end

-- again answers a request whose id is known.
function rider.again(rec, q, clock)
  local id = r.id
  if not id.found then return end
  if r.once then return '\1' .. id.found end
  if id.kind == ids.RESERVATION then
    local _, _, _, _, text, answer = rider.remembered(id.found)
    return pack('>BB', 1, #text) .. text .. answer
  end
  local held, states, uses = rider.renew(rec, id, r.ttl, q.limits[1]), {}, {}
  if not held then return end
  local lapsed = rec.lapsed
  holds.weigh(ids.record(rec.clock), held, states, uses)
  local st = states[1]
  return pack('>BB', 1, #held.text) .. held.text .. pack('>I6BI3I4I3I6I6I6I6', clock, layout.HELD, lapsed, 1,
    lib.rate.at(rec.now, st.held.last, st.held.rate), uses[1] - held.cost, 0, holds.said_last(st), 0)
end

-- remember remembers the first answer to a request that was granted: an entry's reply, of which all that comes after the
-- status is alike.
function rider.remember(q, clock, now, entry)
  local from = #entry - 6 - 24 * q.count
  if unpack('>I4', entry, from) == 0 then return end
  local answer = sub(entry, from)
  if r.once then
    ids.keep(now, now + q.longest + 1, pack('>B', #q.text) .. q.text .. pack('>I6B', clock, DECIDED) .. answer)
  else
    answer = q.kind ~= CONCURRENCY and pack('>I6B', clock, DECIDED) .. answer or ''
    ids.keep(now, r.id.till, rider.written(false, r.release, r.ttl, 0, q.text, answer))
  end
end

-- admit_one answers one request, by its spec and its rider.
function lib.admit_one(key, clock, asked, text)
  local q = spec.of(asked)
  if q.cost == 0 then return '\0' .. pack('>I6', clock) .. lib.answer(record.open(key, clock), q, 1, lib.charge) end
  local id = rider.open(text, q, key, clock).id
  local entry, now
  if not id.found and id.last <= clock and not ids.full() then
    if not r.once then
      id.till = holds.deadline(clock, r.ttl)
      entry, now = straight.reserve(q, id.till, r.release, key, clock)
    else
      entry, now = lib.entry(q, key, clock)
    end
  end
  if not entry then
    local rec = ids.record(clock)
    local known = rider.again(rec, q, clock)
    if known then return known end
    entry, now = lib.answer(rec, q, 1, r.take), rec.now
  end
  rider.remember(q, clock, now, entry)
  return pack('>BI6', 0, clock) .. entry
end
lib.admit = record.guarded(function(keys, args) return lib.admit_one(keys[1], lib.clock_of(args[1]), args[2], args[3]) end)
