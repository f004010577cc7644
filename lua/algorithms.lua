-- algorithms.lua: one table of the limiters, and of what they share.
--
-- An algorithm is five operations on a state's table. st.limit is the limit as last charged.
--
--   fresh(st)                              sets the fields of a state without admissions
--   usage(st, rec, strict, spec)           returns the units that count now; the others are asked after it. spec is
--                                          that of the request, if there is one
--   charge(st, rec, limit, units)          admits units now
--   room_at(st, rec, over, most, strict)   returns the ms at which at most `most` units count; `over` units count beyond that
--   matters_until(st)                      returns the last ms at which the state can matter
--
-- usage and charge also set what a reply says of the newest admission, for the proxy to reckon when nothing is used
-- any more: said_last, and said_newest, see decide.lua.
--
-- An algorithm may have a second function, straight, which decides and stores the most common case in one go: one
-- window, an inline record. It stores and answers what the five do, byte for byte.
local lib = ...

local layout = lib.layout

lib.algorithms = {
  [layout.SLIDE] = lib.slide,
  [layout.COUNTER] = lib.counter,
  [layout.FIXED] = lib.fixed,
  [layout.GCRA] = lib.gcra,
  -- Lease records are not charged, but end, too.
  [layout.HOME] = lib.lease,
  [layout.SHARD] = lib.lease,
  -- What is held ends, too.
  [layout.CONCURRENCY] = lib.holds.nothing,
  [layout.HOLDS + layout.SLIDE] = lib.holds,
  [layout.HOLDS + layout.COUNTER] = lib.holds,
  [layout.HOLDS + layout.FIXED] = lib.holds,
  [layout.HOLDS + layout.CONCURRENCY] = lib.holds,
}
