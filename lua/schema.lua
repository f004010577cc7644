-- schema.lua: the schema of the stored record, which docs/storage.md shows with an example.
--
-- A client key has one stored record, which holds all of its states. A state is one window of one command, or the
-- lease record of a split key. Integers are unsigned and big-endian; times are in ms since the epoch.
--
--   head    version 1 byte, number of states 2
--   names   per state: kind 1, parameter 5, window 5, limit as last charged 5
--   fields  per state, as the file of its kind describes them
--   areas   of the states that have one, in the same order
--
-- The head and the names are the record's directory, which determines the offsets of the rest. The lease record of a
-- split key is always the last state. A record that is shorter than its directory's inline size is an inline record:
-- it is read and written in one piece. A longer one is a patched record: only the bytes that change are written, so
-- that the cost of a decision does not depend on the length of a log.
local lib = ...

local schema = {
  VERSION = 4,

  -- Kinds that are not algorithms, in names and in specs, see algorithms.lua. RESET names no state: a spec of this kind
  -- deletes the key.
  RESET = 5, HOME = 6, SHARD = 7, ADVANCES = 10,
  HOLDS = 16,               -- added to a window's kind: the kind of the state that has the window's held units

  HEAD_BYTES = 3,
  NAME_BYTES = 16,
  NAME = '>BI5I5I5',        -- how a name is packed
  STATE_BYTES = 11,         -- of what names the state: the name without the limit
  STATE = '>BI5I5',
  ENTRY_BYTES = 12,         -- of an entry of an RL.SLIDE log: ms 6, running total 6
  TOTAL_AT = 6,             -- of the running total in it
  COUNTER_BYTES = 5,        -- of one sub-window of RL.COUNTER
  -- Bytes of a cell, the holds of one deadline: the deadline 6, units to charge 6, to release 6, holds 3
  CELL_BYTES = 21,
  CELL = '>I6I6I6I3',       -- how it is packed
  DIGEST_BYTES = 16,        -- of the digest before the table of a lease record, in hexadecimal
  SUMMARY_BYTES = 43,       -- of a lease summary, see lease.lua
  WRAP = 281474976710656,   -- running totals of a log are kept modulo 2^48
  COUNTER_WRAP = 2 ^ 40,    -- those of RL.COUNTER

  -- Offsets in the fields of a state, counted from 0: of slots in a log and in held units, and of ending and summary in
  -- a lease record.
  SLOTS_AT = 13, ENDING_AT = 6, SUMMARY_AT = 12,

  -- Packing costs time by the number of values. So the fast path and the fields of a log pack adjacent values as one:
  -- SHIFT times the first plus the second, which has 3 bytes. For example, '>I8' packs a byte 0, granted 4 and rate 3
  -- as granted * SHIFT + rate, and '>I12' packs a 0 of 6 bytes before a value of 6.
  SHIFT = 16777216,

  LINGER = 1000,            -- ms for which a key is stored after the last ms at which it matters, see record.expire

  INLINE = 320,             -- the inline size of a record with one state, in bytes
  INLINE_MORE = 400,        -- bytes that each further state adds to it: patching takes two Redis calls for each log

  -- Bounds. A record that exceeds one of these is damaged: no function writes it, and processing it could take too
  -- long.
  STATES = 64,              -- windows of a key: each has a state of charged units, one of held units, or both
  SLOTS = 262144,           -- of an RL.SLIDE log
  -- Cells of a window: TTLs fall into 30 ranges, each twice the one before, with at most 129 deadlines each
  CELLS = 4096,
  BUCKET_BYTES = 65536,     -- of the ids in one bucket of their hash, see ids.lua
  LEASE_BYTES = 262144,     -- of a lease record's area
  -- Ms of the longest window; the newest charge may be as far ahead of a clock that stepped back
  YEAR = 31622400000,
  -- Ms by which the newest entry of a log may be later than the charge: YEAR / 65536, see slide.dated
  GRID = 482520,
  DELAY = 2 ^ 37,           -- ms from the clock to any time in a reply, except a rate's
  DRAIN = 2 ^ 43,           -- the same for a rate: limit.MaxDrain in Go, and more if the clock stepped back
  UNITS = 2 ^ 46,           -- units in use of a window, in all shards together
}
lib.schema = schema

-- rep returns n copies of s, like string.rep, which takes a step for each copy.
function schema.rep(s, n)
  local all, size = n > 0 and s or '', #s * n
  while #all < size do all = all .. all end
  return string.sub(all, 1, size)
end
