-- layout.lua: the layout of the stored record, and the constants of the wire. docs/storage.md shows the layout with an example.
--
-- A client key has one stored record, which holds all of its states. A state is one window of one command, or the
-- lease record of a split key. Integers are unsigned and big-endian; times are in ms since the epoch.
--
--   head    version 1 byte, number of states 2
--   names   per state: kind 1, buckets 2, window 5, limit as last charged 5
--   fields  per state, see FIELDS below
--   areas   of the states that have one, in the same order
--
-- The head and the names are the record's directory, which determines the offsets of the rest. The lease record of a
-- split key is always the last state. A record that is shorter than its directory's inline size is an inline record:
-- it is read and written in one piece. A longer one is a patched record: only the bytes that change are written, so
-- that the cost of a decision does not depend on the length of a log.
local lib = ...

local unpack, pack = struct.unpack, struct.pack

local layout = {
  VERSION = 3,

  -- Kinds, in names and in specs. A number is never reused for another kind. RESET names no state: a spec of this
  -- kind deletes the key. Nothing is charged to CONCURRENCY: it only has holds.
  SLIDE = 1, COUNTER = 2, FIXED = 3, GCRA = 4, RESET = 5, HOME = 6, SHARD = 7, CONCURRENCY = 8,
  HOLDS = 16,               -- added to a window's kind: the kind of the state that has the window's held units

  -- The status with which an entry's reply begins.
  DECIDED = 0, FAILED = 1, AT_HOME = 2, AT_SHARD = 3, HELD = 4,

  HEAD_BYTES = 3,
  NAME_BYTES = 13,          -- the first 8 name the state, the other 5 are the limit
  ENTRY_BYTES = 12,         -- of an entry of an RL.SLIDE log: ms 6, running total 6
  COUNTER_BYTES = 5,        -- of one sub-window of RL.COUNTER
  CELL_BYTES = 21,          -- of a cell, the holds of one deadline: the deadline 6, units to charge 6, to release 6, holds 3
  DIGEST_BYTES = 16,        -- of the digest before the table of a lease record, in hexadecimal
  SUMMARY_BYTES = 40,       -- of a lease summary, see lease.lua
  WRAP = 281474976710656,   -- running totals of a log are kept modulo 2^48
  COUNTER_WRAP = 2 ^ 40,    -- those of RL.COUNTER
  TOTALS = 2 ^ 47,          -- is added to an RL.COUNTER's used: its area has totals. Earlier versions stored counts, and not this

  -- Offsets in the fields of a state, counted from 0: of slots in a log and in held units, and of ending and summary in a lease
  -- record.
  SLOTS_AT = 13, ENDING_AT = 6, SUMMARY_AT = 12,

  -- Packing costs time by the number of values. So the fast path and the fields of a log pack adjacent values as one: SHIFT
  -- times the first plus the second, which has 3 bytes. For example, '>I8' packs a byte 0, granted 4 and rate 3 as granted *
  -- SHIFT + rate, and '>I12' packs a 0 of 6 bytes before a value of 6.
  SHIFT = 16777216,

  LINGER = 1000,            -- ms for which a key is stored after the last ms at which it matters, see record.expire

  INLINE = 320,             -- the inline size of a record with one state, in bytes
  INLINE_MORE = 400,        -- bytes that each further state adds to it: patching takes two Redis calls for each log

  -- Bounds. A record that exceeds one of these is damaged: no function writes it, and processing it could take too long.
  STATES = 64,              -- windows of a key: each has a state of charged units, one of held units, or both
  BUCKETS = 1000,
  SLOTS = 262144,           -- of an RL.SLIDE log
  CELLS = 4096,             -- of a window: TTLs fall into 30 ranges, each twice the one before, with at most 129 deadlines each
  BUCKET_BYTES = 65536,     -- of the ids in one bucket of their hash, see ids.lua
  LEASE_BYTES = 262144,     -- of a lease record's area
  YEAR = 31622400000,       -- ms of the longest window; the newest charge may be as far ahead of a clock that stepped back
  GRID = 482520,            -- ms by which the newest entry of a log may be later than the charge: YEAR / 65536, see slide.dated
  DELAY = 2 ^ 37,           -- ms from the clock to any time in a reply, except a rate's
  DRAIN = 2 ^ 43,           -- the same for a rate: limit.MaxDrain in Go, and more if the clock stepped back
  UNITS = 2 ^ 46,           -- units in use of a window, in all shards together
}
lib.layout = layout

-- rep returns n copies of s, like string.rep, which takes a step for each copy.
function layout.rep(s, n)
  local all, size = n > 0 and s or '', #s * n
  while #all < size do all = all .. all end
  return string.sub(all, 1, size)
end

-- FIELDS describes the fields of a state, by kind: bytes is their size, read sets them in a state's table from s at an index,
-- and write packs them. If the state's area has slots, slot is the size of one.
layout.FIELDS = {
  -- last: the ms of the newest call that charged. rate: how many calls charged in the second before that of last, 2
  -- bytes, and in that of last, 2 bytes, see rate.lua. count, slots, first: the ring's number of entries, its number of slots,
  -- and the slot of its oldest entry. base, total: the running totals before the oldest entry and after the newest. newest:
  -- the ms of the newest entry.
  [layout.SLIDE] = {
    bytes = 37, slot = layout.ENTRY_BYTES,
    read = function(st, s, at)
      st.last, st.rate, st.count, st.slots, st.first, st.base, st.total, st.newest =
        unpack('>I6I4I3I3I3I6I6I6', s, at)
    end,
    write = function(st)
      return pack('>I6I4I6I3I6I6I6', st.last, st.rate, st.count * layout.SHIFT + st.slots, st.first, st.base, st.total,
        st.newest)
    end,
  },
  -- used: the units in all sub-windows. The area has buckets + 1 totals; that of sub-window k is in slot k % (buckets + 1).
  -- counts, in memory: it has counts instead.
  [layout.COUNTER] = {
    bytes = 16,
    read = function(st, s, at)
      local used
      st.last, st.rate, used = unpack('>I6I4I6', s, at)
      st.used, st.counts = used % layout.TOTALS, used > 0 and used < layout.TOTALS
    end,
    write = function(st) return pack('>I6I4I6', st.last, st.rate, st.counts and st.used or st.used + layout.TOTALS) end,
  },
  -- drained, beyond: the ms, and the ns beyond it, at which all charged units have drained. interval: ns between units.
  -- The window is 0.
  [layout.GCRA] = {
    bytes = 27,
    read = function(st, s, at) st.last, st.rate, st.drained, st.beyond, st.interval = unpack('>I6I4I6I3I8', s, at) end,
    write = function(st) return pack('>I6I4I6I3I8', st.last, st.rate, st.drained, st.beyond, st.interval) end,
  },
}

-- The fields of RL.FIXED. used: the units in the window of last.
layout.FIELDS[layout.FIXED] = {
  bytes = 16,
  read = function(st, s, at) st.last, st.rate, st.used = unpack('>I6I4I6', s, at) end,
  write = function(st) return pack('>I6I4I6', st.last, st.rate, st.used) end,
}

-- The fields of a lease record. size, slots: the bytes of the digest and the packed table, and of the padded area. ending: the
-- last ms at which the lease record matters. summary: see lease.lua. A lease record is not charged: last and rate stay 0.
layout.FIELDS[layout.HOME] = {
  bytes = 12 + layout.SUMMARY_BYTES, slot = 1,
  read = function(st, s, at)
    st.last, st.rate, st.size, st.slots, st.ending, st.summary = 0, 0, unpack('>I3I3I6c40', s, at)
  end,
  write = function(st) return pack('>I3I3I6c40', st.size, st.slots, st.ending, st.summary) end,
}
layout.FIELDS[layout.SHARD] = layout.FIELDS[layout.HOME]

-- The fields of a window's held units. last: the ms of the newest hold. rate: of holds, see rate.lua. cells, slots: how many
-- cells there are, see holds.lua, and the size of the area in cells. holds, charge, release: the sums over all cells. lapsed:
-- how many holds have lapsed. last_charge, last_release: the latest deadlines of units to charge and to release, 0 without any.
-- next: the earliest deadline, 0 without cells. The fast path reads it instead of the cells.
local HELD = {
  bytes = 53, slot = layout.CELL_BYTES,
  read = function(st, s, at)
    st.last, st.rate, st.cells, st.slots, st.holds, st.charge, st.release, st.lapsed, st.last_charge, st.last_release, st.next =
      unpack('>I6I4I3I3I3I6I6I4I6I6I6', s, at)
  end,
  write = function(st)
    if st.cells == 0 then return pack('>I10I3I3', 0, 0, st.slots) .. string.rep('\0', 37) end -- this also resets lapsed
    return pack('>I6I4I3I3I3I6I6I4I6I6I6', st.last, st.rate, st.cells, st.slots, st.holds, st.charge, st.release, st.lapsed,
      st.last_charge, st.last_release, st.next)
  end,
}

-- HOLDABLE has the kinds whose units can be held.
layout.HOLDABLE = { layout.SLIDE, layout.COUNTER, layout.FIXED, layout.CONCURRENCY }
for _, kind in ipairs(layout.HOLDABLE) do layout.FIELDS[layout.HOLDS + kind] = HELD end

-- An RL.COUNTER with one sub-window stores two counts among its fields, of the even and of the odd sub-window, and has no stored
-- area. In memory the two totals are its area.
local PAIR = {
  bytes = 20,
  read = function(st, s, at)
    local last, calls, even, odd = unpack('>I6I4I5I5', s, at)
    local total = even + odd
    if math.floor(last / st.window) % 2 == 0 then even = total else odd = total end
    st.last, st.rate, st.used = last, calls, total
    st.area = pack('>I5I5', even % layout.COUNTER_WRAP, odd % layout.COUNTER_WRAP)
  end,
  write = function(st)
    local even, odd = unpack('>I5I5', st.area)
    if math.floor(st.last / st.window) % 2 == 0 then
      even = (even - odd) % layout.COUNTER_WRAP
      odd = st.used - even
    else
      odd = (odd - even) % layout.COUNTER_WRAP
      even = st.used - odd
    end
    return pack('>I6I4I5I5', st.last, st.rate, even, odd)
  end,
}

-- fields_of returns the fields of a kind of state.
function layout.fields_of(kind, buckets)
  return kind == layout.COUNTER and buckets == 1 and PAIR or layout.FIELDS[kind]
end

-- counters_bytes returns the size of the area of a kind of state that has no slots.
function layout.counters_bytes(kind, buckets)
  return kind == layout.COUNTER and buckets > 1 and (buckets + 1) * layout.COUNTER_BYTES or 0
end

-- area_bytes returns the size of a state's area.
function layout.area_bytes(st)
  local slot = layout.FIELDS[st.kind].slot
  return slot and st.slots * slot or layout.counters_bytes(st.kind, st.buckets)
end
