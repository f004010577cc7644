-- admit.lua: the function rl_admit answers one request with an id. The request is charged once, or holds units that are
-- charged later. A request with a known id gets the same reply as the first one.
--
-- ARGV[2] the spec, see spec.lua; that of RL.ACQUIRE has the kind CONCURRENCY, 1 bucket, and one window of 0 ms whose
--         limit is the number of slots
-- ARGV[3] the fields of the id: ID and HOLD of messages.lua returns a byte 0, the clock 6, the reply of one entry, see
-- decide.lua; or if the id is known, a byte 1, the length of a
--         spec 1, the spec that the reply is about, and then what was returned at first
-- Cost: as rl_decide, and one Redis call to read the id and one to write it.
local lib = ...

local unpack, pack, sub, byte = struct.unpack, struct.pack, string.sub, string.byte
local layout, record, spec, ids, holds = lib.layout, lib.record, lib.spec, lib.ids, lib.holds
local messages, fast_holds, id, ONCE, LEASE = lib.messages, lib.fast_holds, ids.id, ids.ONCE, ids.LEASE
local by_id = {}
lib.by_id = by_id

-- The fields in memory that ids.lua does not have, unless its id is one of ONCE: for how many ms units are held,
-- and 1 if units that lapse are forgotten.
local ttl, release = 0, 0

-- open reads the fields of an id, and what is stored about the id.
function by_id.open(text, key, clock)
  local kind, field, digest = unpack(messages.ID, text)
  if kind ~= ONCE then ttl, release = unpack(messages.HOLD, text, messages.HOLD_AT) end
  ids.open(key, kind, field, digest, clock)
end

-- take takes the place of lib.charge: it holds units, or charges them if the id is one of ONCE.
function by_id.take(rec, q, states, units)
  ids.admits(rec.now)
  if id.kind == ONCE then return lib.charge(rec, q, states, units) end
  holds.admits(q, states)
  id.till = holds.deadline(rec.now, ttl, holds.crowded(q))
  holds.add(rec, q, id.till, units, release == 1, states)
  return true
end

-- first_spec returns the spec of the first request with the id, which is known.
function by_id.first_spec() return spec.of(sub(id.found, 2, 1 + byte(id.found))) end

-- renew extends a lease of RL.ACQUIRE: from now on it lasts for `lasts` ms. It returns the lease's spec, with `slots`
-- as its limit if that is given, or nothing if the lease has ended.
function by_id.renew(rec, lasts, slots)
  if not id.found then return end
  local q = by_id.first_spec()
  if slots then q = spec.of(sub(q.text, 1, -6) .. pack('>I5', slots)) end
  if not holds.still_held(q, id.till, q.cost, true) then return end
  local was, till = record.ends(), holds.deadline(rec.now, lasts, holds.crowded(q))
  holds.add(rec, q, till, q.cost, true) -- first: a window without holds would count lapsed ones from 0
  holds.remove(rec, q, id.till, q.cost, true)
  record.save(was)
  id.ttl = lasts
  ids.keep(rec.now, till, q.prefixed, '')
  return q
end

-- again answers a request whose id is known.
function by_id.again(rec, q, clock)
  if not id.found then return end
  if id.kind ~= LEASE then return '\1' .. id.found end
  local held, states, uses = by_id.renew(rec, ttl, q.limits[1]), {}, {}
  if not held then return end
  local lapsed = rec.lapsed
  holds.weigh(ids.record(rec.clock), held, states, uses, false)
  local st = states[1]
  return '\1' .. held.prefixed .. pack('>BI6BI3I4I3I6I6I6', 0, clock, layout.HELD, lapsed, 1,
    lib.rate.at(rec.now, st.held.last, st.held.rate), uses[1] - held.cost, 0, holds.empty_at(st, rec, false))
end

-- remember stores the reply to a request, if it was granted.
function by_id.remember(q, now, reply)
  if byte(reply, -4 - layout.USAGE_BYTES * q.count) == 0 then return end -- the last byte of granted
  if id.kind == ONCE then id.till = now + q.longest + 1 else id.ttl, id.release, id.settled = ttl, release, 0 end
  ids.keep(now, id.till, q.prefixed, id.kind ~= LEASE and reply or '')
end

-- admit_one answers one request with the spec `spec_text` and the fields `text` of its id.
function lib.admit_one(key, clock, spec_text, text)
  local q, reply, now = spec.of(spec_text)
  if q.cost == 0 then return pack('>I7', clock) .. lib.answer(record.open(key, clock), q, 1, lib.charge) end
  by_id.open(text, key, clock)
  if not id.found and id.last <= clock and not ids.full() then
    if id.kind == ONCE then
      reply, now = lib.entry(q, key, clock, clock)
    else
      local till
      reply, till = fast_holds.reserve(q, ttl, release == 1, key, clock)
      now, id.till = clock, till or id.till
      if reply then reply = pack('>I7', clock) .. reply end
    end
  end
  if not reply then
    local rec = ids.record(clock)
    local known = by_id.again(rec, q, clock)
    if known then return known end
    reply, now = lib.answer(rec, q, 1, by_id.take)
    reply = pack('>I7', clock) .. reply
  end
  by_id.remember(q, now, reply)
  return reply
end
lib.admit = record.guarded(lib.admit_one)
