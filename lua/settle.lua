-- settle.lua: the end and the renewal of holds. The function rl_settle ends a hold and charges its final cost, for
-- RL.SETTLE; RL.RELEASE uses it with a cost of 0. Renewals are part of a call of rl_each. The messages are in
-- messages.lua.
--
-- Cost: two Redis calls to read, and usually two to write.
local lib = ...

local unpack, pack, max = struct.unpack, struct.pack, math.max
local record, ids, id, holds, by_id, fast_holds = lib.record, lib.ids, lib.ids.id, lib.holds, lib.by_id, lib.fast_holds
local messages = lib.messages
local SETTLE, SETTLED, RENEW, RENEWED = messages.SETTLE, messages.SETTLED, messages.RENEW, messages.RENEWED
local COUNTABLE = 2 ^ 45 -- the most units of a window that the stored fields can count, see algorithms.lua

local function reply(settled, cost, units, lapsed)
  return pack(SETTLED, settled, cost, max(units - cost, 0), max(cost - units, 0), lapsed)
end

-- The keys of which the next release of a lease is published, since somebody waits for it. It is published once: who
-- waits and is denied again is entered again. There are at most 2 * MOST: beyond that, and after a restart, requests
-- that wait are woken by their retry_after only. A script keeps nothing between calls, so it publishes each release.
local MOST = 1024
local keys, older, count = {}, {}, 0

-- await enters a key.
function lib.await(key)
  if keys[key] then return end
  if count == MOST then keys, older, count = {}, keys, 0 end
  keys[key], count = true, count + 1
end

-- released publishes a key if it was entered. q is the spec of the lease.
local function released(key, q)
  if not (keys[key] or older[key] or lib.scripted and q.kind == holds.CONCURRENCY) then return end
  if keys[key] then count = count - 1 end
  keys[key], older[key] = nil, nil
  redis.call('PUBLISH', 'rl:recall', 'freed ' .. key)
end

-- ended stores that the hold of an id, of a spec q, has ended. The id of a lease, or of a multi-key request, is
-- forgotten.
local function ended(kind, now, q)
  if kind ~= ids.LEASE then return ids.keep(now, holds.deadline(now, id.ttl), id.found, '') end
  ids.drop(now)
  released(id.key, q)
end

-- settle_one ends a hold; asked is the argument of rl_settle.
function lib.settle_one(key, clock, asked)
  local kind, field, digest, cost = unpack(SETTLE, asked)
  ids.open(key, kind, field, digest, clock)
  if not id.found then return reply(0, 0, 0, 0) end
  local q, release, settled = by_id.first_spec(), id.release == 1, id.settled
  id.settled = cost + 1 -- is stored by ended, if this call settles the hold; 0 means that it is out
  if settled == 0 and id.last <= clock and fast_holds.settle(q, id.till, release, key, clock, cost) then
    ended(kind, clock, q)
    return reply(1, cost, q.cost, 0)
  end
  local rec = ids.record(clock)
  if id.found and settled == cost + 1 then return reply(2, cost, q.cost, 0) end
  if not id.found or settled > 0 or not holds.still_held(q, id.till, q.cost, release) then return reply(0, 0, 0, 0) end
  local was, states, uses = record.ends(), {}, {}
  holds.weigh(rec, q, states, uses, false)
  local most = q.algorithm.countable or COUNTABLE
  for i = 1, q.count do
    if cost > q.cost and uses[i] - q.cost + cost > most then
      error({ err = 'ERR cost exceeds what this key can count' })
    end
  end
  if cost > 0 then lib.charge(rec, q, states, cost) end
  holds.remove(rec, q, id.till, q.cost, release)
  record.save(was)
  ended(kind, rec.now, q)
  return reply(1, cost, q.cost, rec.lapsed)
end
lib.settle = record.guarded(lib.settle_one)

-- renew_one extends a lease of RL.ACQUIRE: asked is the first argument of a renewal in a call of rl_each.
function lib.renew_one(key, clock, asked)
  local field, digest, ttl = unpack(RENEW, asked)
  ids.open(key, ids.LEASE, field, digest, clock)
  local rec = ids.record(clock)
  return by_id.renew(rec, ttl) and pack(RENEWED, 1, rec.lapsed) or pack(RENEWED, 0, 0)
end
