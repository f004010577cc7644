-- lease.lua: what the home and the other shards of a split key have in common. shard/lease/lease.go explains the
-- protocol.
--
-- Each has a lease record: a state of the kind HOME or SHARD, always the last state of the key's record. Its area is
-- the first digits of the SHA-1 of a packed table, and the table, packed by cmsgpack. It is padded so that most changes
-- can be written in place. Its fields end with the lease summary: what the fast path must know to admit without reading
-- the table.
--
--   summary  the spec that it is about, from its flags on, 17 bytes; the units that may be in use here 6; what is
--            added to the usage for the reply 6; the first and the last ms at which the summary is valid 6 and 6;
--            shards 2 (0 at a shard)
--
-- States are named by their names in a record without the limit. pairs has, per window, the state's name 11 and limit
-- 5.
local lib = ...

local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local max, ceil, zeros = math.max, math.ceil, string.rep
local schema, record = lib.schema, lib.record
local HOME, SHARD = schema.HOME, schema.SHARD
local UNITS, NAME, STATE, DIGEST = schema.UNITS, schema.NAME_BYTES, schema.STATE_BYTES, schema.DIGEST_BYTES
local PAD = 64
local lease = {
  LEASE = 1000,  -- ms that a loan lasts, counted from before it was requested
  SHARDS = 1024, -- the most shards of a key
  NAMES = 8192,  -- the most states, over all shards, in a home's table: with more it would not fit into LEASE_BYTES
}
lib.lease = lease

-- The fields of a lease record. size, slots: the bytes of the digest and the packed table, and of the padded area.
-- ending: the last ms at which the lease record matters. A lease record is not charged: last and rate stay 0.
local form = {
  bytes = 12 + schema.SUMMARY_BYTES, slot = 1,
  read = function(st, s, at)
    st.last, st.rate, st.size, st.slots, st.ending, st.summary = 0, 0, unpack('>I3I3I6c43', s, at)
  end,
  write = function(st) return pack('>I3I3I6c43', st.size, st.slots, st.ending, st.summary) end,
}
for _, kind in ipairs({ HOME, SHARD }) do
  lib.register({
    kind = kind, valid = function() return true end, fields = function() return form end,
    matters_until = function(st) return st.ending end,
  })
end

-- life returns for how long, in ms, a unit may count after it is admitted, without the rounding of a log's grid.
function lease.life(name)
  local kind, parameter, window = unpack(schema.STATE, name)
  local life = lib.algorithms[kind].life
  return life and life(parameter, window) or window
end

-- each calls back(i, name, limit) for each of the pairs.
function lease.each(pairs, back)
  for i = 1, #pairs / NAME do
    local at = (i - 1) * NAME
    back(i, sub(pairs, at + 1, at + STATE), (unpack('>I5', pairs, at + STATE + 1)))
  end
end

-- used returns the units in use of a state, the ms until the first of them no longer counts, and the state, if there is
-- one.
function lease.used(rec, name, strict)
  local kind, parameter, window = unpack(schema.STATE, name)
  local st = record.find(kind, parameter, window)
  if not st or st.kind == HOME or st.kind == SHARD then return 0, 0 end
  local used = lib.algorithms[kind].usage(st, rec, strict)
  return used, lease.first(rec, st, used, strict), st
end

-- first returns the ms until the first of the units in use no longer counts.
function lease.first(rec, st, used, strict)
  if used <= 0 then return 0 end
  local ms = lib.holds.room_at(st, rec, 1, used - 1, strict) - rec.clock
  if used > UNITS or ms > schema.DELAY then record.damaged(rec.key, 'what it counts does not add up') end
  return max(ms, 1)
end

-- digest returns what is stored before a packed table, to recognize bytes that have changed.
local function digest(packed) return sub(redis.sha1hex(packed), 1, DIGEST) end

-- read returns the table in a state's area, or nothing if it is not as write has stored it. No other number in a table
-- is checked.
function lease.read(st)
  if st.size > st.slots or st.slots > schema.LEASE_BYTES then return end
  local s = record.area(st)
  local packed = sub(s, DIGEST + 1, st.size)
  if digest(packed) == sub(s, 1, DIGEST) then return cmsgpack.unpack(packed) end
end

-- write puts a table into the area of a state of the record in memory.
function lease.write(rec, st, t)
  local packed = cmsgpack.pack(t)
  local s = digest(packed) .. packed
  local slots = ceil(#s / PAD) * PAD
  if st.slots ~= slots then rec.rewrite = true end
  st.size, st.slots = #s, slots
  st.area = s .. zeros('\0', slots - #s)
  st.patch, st.patch_at = st.area, 0
end

-- open returns the table of the record's lease record, and its state, if there is one. A lease record of another kind
-- than the given one is damage.
function lease.open(rec, kind)
  local st = rec.lease
  if not st then return nil, st end
  local t = st.kind == kind and lease.read(st)
  if not t then record.damaged(rec.key, 'a lease record without its table') end
  return t, st
end

-- summarize packs a lease summary of a table: its bound, offset, from and till. A summary can be about one window only,
-- and its numbers must not be negative; otherwise it is empty, and only the slow path can answer.
local function summarize(kind, t, says)
  if #t.pairs ~= NAME or says.bound < 0 or says.offset < 0 or says.till < says.from then
    return zeros('\0', schema.SUMMARY_BYTES)
  end
  local flags = (t.strict and 1 or 0) + (kind == SHARD and 2 or 0)
  return pack('>Bc16I6I6I6I6I2', flags, t.pairs, says.bound, says.offset, says.from, says.till, t.shards or 0)
end

-- summary reads the lease summary in s at an index. It returns the bound, the offset and the shards; nil, 0, 0 if the
-- summary is not about the spec q or not valid at the clock.
function lease.summary(q, s, at, clock)
  local about, bound, offset, from, till, shards = unpack('>c17I6I6I6I6I2', s, at)
  if about == q.about and clock >= from and clock <= till and bound + offset <= UNITS then
    return bound, offset, shards
  end
  return nil, 0, 0
end

-- limit returns the limit of pairs if they are about one window, and otherwise 0.
function lease.limit(pairs) return #pairs == NAME and unpack('>I5', pairs, STATE + 1) or 0 end

-- keep puts a table into the record in memory, which record.save writes. The record matters until `ending`, and its
-- summary has what summarize takes.
function lease.keep(rec, kind, t, ending, says)
  local st = rec.lease
  if not st then
    st = record.state(kind, 1, 0)
    record.add(st)
  end
  st.ending, st.summary = ending, summarize(kind, t, says)
  lease.write(rec, st, t)
end
