-- admit.lua: the function rl_admit answers one request with an id. The request is charged once, or holds units that are
-- charged later. A request with a known id gets the same reply as the first one.
--
-- ARGV[2] the spec; that of RL.ACQUIRE has the kind CONCURRENCY, and a window of 0 ms whose limit is its slots
-- ARGV[3] ID and HOLD of messages.lua
-- returns FIRST or AGAIN, and a reply
-- Cost: as rl_decide, and one Redis call to read the id and one to write it.
local lib = ...

local unpack, pack, sub, byte = struct.unpack, struct.pack, string.sub, string.byte
local record, spec, ids, holds = lib.record, lib.spec, lib.ids, lib.holds
local messages, fast_holds, id, ONCE, LEASE = lib.messages, lib.fast_holds, ids.id, ids.ONCE, ids.LEASE
local KNOWN = pack(messages.AGAIN, 1)
local by_id = {}
lib.by_id = by_id

-- first returns what is replied to the first request with an id, given the reply to an entry.
local function first(clock, reply) return pack(messages.FIRST, 0, clock) .. reply end
by_id.first = first

-- open reads the fields of an id, and what is stored about the id.
function by_id.open(text, key, clock)
  local kind, field, digest = unpack(messages.ID, text)
  if kind ~= ONCE then
    local release
    id.asked_ttl, release = unpack(messages.HOLD, text, messages.HOLD_AT)
    id.awaited = release >= messages.AWAITED
    id.asked_release = id.awaited and release - messages.AWAITED or release
  end
  ids.open(key, kind, field, digest, clock)
end

-- take takes the place of lib.charge: it holds units, or charges them if the id is one of ONCE.
function by_id.take(rec, q, states, units)
  ids.admits(rec.now)
  if id.kind == ONCE then return lib.charge(rec, q, states, units) end
  holds.admits(q, states)
  id.till = holds.deadline(rec.now, id.asked_ttl, holds.crowded(q))
  -- what a multi-key request holds is charged in the window in which it was admitted
  if id.kind ~= LEASE then id.till = math.min(id.till, lib.fixed.ends(q)) end
  holds.add(rec, q, id.till, units, id.asked_release == 1, states)
  rec.at_once = id.kind == LEASE
  return true
end

-- first_spec returns the spec of the first request with the id, which is known.
function by_id.first_spec() return spec.of(sub(id.found, 2, 1 + byte(id.found))) end

-- renew extends a lease of RL.ACQUIRE: from now on it lasts for `lasts` ms. It returns the lease's spec, with `slots`
-- as its limit if that is given, or nothing if the lease has ended.
function by_id.renew(rec, lasts, slots)
  if not id.found then return end
  local q = by_id.first_spec()
  if slots then q = spec.of(sub(q.text, 1, messages.WINDOWS_AT - 1) .. pack(messages.WINDOW, q.window, slots)) end
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
  if id.kind ~= LEASE then return KNOWN .. id.found end
  local held, states, uses = by_id.renew(rec, id.asked_ttl, q.limit), {}, {}
  if not held then return end
  local lapsed = rec.lapsed
  holds.weigh(ids.record(rec.clock), held, states, uses, false)
  local st = states[1]
  local rate = lib.rate.at(rec.now, st.held.last, st.held.rate)
  return KNOWN .. held.prefixed .. first(clock, pack(messages.STATUS, messages.HELD) .. pack(messages.LAPSED, lapsed) ..
    pack(messages.GRANTED, 1, rate) .. pack(messages.USAGE, uses[1] - held.cost, 0, holds.empty_at(st, rec, false)))
end

-- remember stores the reply to a request that was granted.
function by_id.remember(q, now, reply)
  if id.kind == ONCE then
    id.till = now + q.longest + 1
  else
    id.ttl, id.release, id.settled = id.asked_ttl, id.asked_release, 0
  end
  ids.keep(now, id.till, q.prefixed, id.kind ~= LEASE and reply or '')
end

-- admit_one answers one request with the spec `spec_text` and the fields `text` of its id.
function lib.admit_one(key, clock, spec_text, text)
  local q, reply, now, granted = spec.of(spec_text)
  if q.cost == 0 then return first(clock, (lib.answer(record.open(key, clock), q, 1, lib.charge))) end
  by_id.open(text, key, clock)
  if not id.found and id.last <= clock and not ids.full() then
    if id.kind == ONCE then
      reply, now, granted = lib.entry(q, key, clock)
    else
      local till
      reply, till = fast_holds.reserve(q, id.asked_ttl, id.asked_release == 1, key, clock)
      now, id.till, granted = clock, till or id.till, till and 1 or 0
    end
  end
  if not reply then
    local rec = ids.record(clock)
    local known = by_id.again(rec, q, clock)
    if known then return known end
    reply, now, granted = lib.answer(rec, q, 1, by_id.take)
  end
  reply = first(clock, reply)
  if granted > 0 then
    by_id.remember(q, now, reply)
  elseif id.kind == LEASE and id.awaited then
    lib.await(key)
  end
  return reply
end
lib.admit = record.guarded(lib.admit_one)
