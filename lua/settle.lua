-- settle.lua: the end and the renewal of holds. The function rl_settle ends a hold and charges its final cost, for RL.SETTLE;
-- RL.RELEASE uses it with a cost of 0.
--
-- KEYS[1] the stored key
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] kind of the id 1 byte, see ids.lua, its digest 16, cost 6
-- returns settled 1 (0: no, 1: by this call, 2: by an earlier call with the same cost), units charged 6, given back 6, charged
--         beyond those held 6, the number of lapsed holds that this call removed 3
-- Cost: two Redis calls to read, and usually two to write.
local lib = ...

local unpack, pack = struct.unpack, struct.pack
local max = math.max
local record, ids, id, holds, by_id, straight = lib.record, lib.ids, lib.ids.id, lib.holds, lib.by_id, lib.straight
-- The most units of a window, and of a window of RL.COUNTER, that the stored fields can count.
local COUNTABLE, IN_A_COUNTER = 2 ^ 45, 2 ^ 40 - 1

local function reply(settled, cost, units, lapsed)
  return pack('>BI6I6I6I3', settled, cost, max(units - cost, 0), max(cost - units, 0), lapsed)
end

-- ended stores that the hold of an id has ended. The id of a lease is forgotten.
local function ended(kind, now)
  if kind == ids.LEASE then ids.drop(now) else ids.keep(now, holds.deadline(now, id.ttl), id.found, '') end
end

-- settle_one ends a hold; asked is ARGV[2] of rl_settle.
function lib.settle_one(key, clock, asked)
  local kind, field, digest, cost = unpack('>Bc2c14I6', asked)
  ids.open(key, kind, field, digest, clock)
  if not id.found then return reply(0, 0, 0, 0) end
  local q, release, settled = by_id.asked(), id.release == 1, id.settled
  id.settled = cost + 1
  if settled == 0 and id.last <= clock and straight.settle(q, id.till, release, key, clock, cost) then
    ended(kind, clock)
    return reply(1, cost, q.cost, 0)
  end
  local rec = ids.record(clock)
  if not id.found then return reply(0, 0, 0, 0) end
  local was = record.ends()
  if settled > 0 then
    if cost + 1 ~= settled then return reply(0, 0, 0, 0) end
    return reply(2, cost, q.cost, 0)
  end
  if not holds.out(q, id.till, q.cost, release) then return reply(0, 0, 0, 0) end
  local states, uses = {}, {}
  holds.weigh(rec, q, states, uses)
  local most = q.kind == lib.layout.COUNTER and IN_A_COUNTER or COUNTABLE
  for i = 1, q.count do
    if cost > q.cost and uses[i] - q.cost + cost > most then error({ err = 'ERR cost exceeds what this key can count' }) end
  end
  if cost > 0 then lib.charge(rec, q, states, cost) end
  holds.remove(rec, q, id.till, q.cost, release)
  record.save(was)
  ended(kind, rec.now)
  return reply(1, cost, q.cost, rec.lapsed)
end
lib.settle = record.guarded(function(keys, args) return lib.settle_one(keys[1], lib.clock_of(args[1]), args[2]) end)

-- The function rl_renew extends leases of RL.ACQUIRE, each from now on for a number of ms.
--
-- KEYS    the stored keys, unless they are at the end of ARGV, as for rl_decide
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] per key: the digest of the id 16 bytes, ms 5
-- returns per key 1 byte: 1 if it was renewed, 0 if it had ended, 2 if this key has failed. If there is only one key, its error
--         is returned instead
-- Cost: O(keys); per key two Redis calls to read, and usually two to write.
function lib.renew(keys, args)
  local clock, said, before = lib.clock_of(args[1]), args[2], 0
  local count = #said / 21
  if #keys == 0 then keys, before = args, #args - count end
  local out = {}
  for i = 1, count do
    local key = keys[before + i]
    local field, digest, ttl = unpack('>c2c14I5', said, i * 21 - 20)
    local ok, why = pcall(function()
      ids.open(key, ids.LEASE, field, digest, clock)
      return by_id.renew(ids.record(clock), ttl) and '\1' or '\0'
    end)
    if not ok and count == 1 then error({ err = (record.explain(key, why)) }) end
    out[i] = ok and why or '\2'
  end
  return table.concat(out)
end
