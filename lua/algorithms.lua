-- algorithms.lua: the table of algorithms.
--
-- An algorithm is four operations on a state's table. st.limit is the limit as last charged. All fields of a state without
-- admissions are 0.
--
--   usage(st, rec, strict, spec)           returns the units that count now, and must be called before charge and room_at.
--                                          spec is that of the request, if there is one
--   charge(st, rec, limit, units)          admits units now
--   room_at(st, rec, over, most, strict)   returns the first ms at which at most `most` units count; now, `over` more do
--   matters_until(st)                      returns the last ms at which the state can matter
--
-- usage and charge also set reported_last and reported_newest: what a reply says of the newest admission, see decide.lua. The
-- proxy computes from them when nothing is used any more.
--
-- additive is true if units that were counted in several places add up. Only these are lent to the shards of a split key.
--
-- An algorithm may have one more function, straight, which decides the most common case in one step: one window of an inline
-- record. It gives the same reply and stores the same bytes as the operations.
local lib = ...

local layout = lib.layout

lib.algorithms = {
  [layout.SLIDE] = lib.slide,
  [layout.COUNTER] = lib.counter,
  [layout.FIXED] = lib.fixed,
  [layout.GCRA] = lib.gcra,
  [layout.HOME] = lib.lease, -- a lease record is not charged; it only has matters_until
  [layout.SHARD] = lib.lease,
  [layout.CONCURRENCY] = lib.holds.nothing, -- is never charged
}

-- The states of held units only have matters_until.
for _, kind in ipairs(layout.HOLDABLE) do lib.algorithms[layout.HOLDS + kind] = lib.holds end
