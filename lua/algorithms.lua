-- algorithms.lua: the register of all kinds of states. The file of an algorithm registers it, and nothing else lists
-- them.
--
-- What a file passes to lib.register:
--
--   kind           its number, in names and in specs, below HOLDS. A number is never reused for another algorithm
--   valid(parameter, window)
--                  reports whether a state can have this parameter and this window. The parameter is 1 if there is none
--                  to choose
--   fields(parameter)
--                  returns a table about the fields of a state:
--                    bytes                their size. They begin with last 6, the ms of the newest call that charged,
--                                         and rate 4, see rate.lua
--                    read(st, s, at)      sets them in a state's table from s at an index
--                    write(st)            packs them
--                    slot                 if the state's area has slots, whose number is a field 3 at SLOTS_AT: the
--                                         bytes of one
--                    area                 otherwise the bytes of the state's area, 0 without one
--   least, most    for how many windows a state matters after its last charge, at least and at most
--   drains         true if units drain at a rate, for longer than a window if many are used
--   additive       true if units that were counted in several places add up. Only these are lent to shards of a split
--                  key
--   weighted       true if strict makes a difference
--   life(parameter, window)
--                  returns for how long, in ms, a unit may count after it is admitted, without rounding; the window, if
--                  absent
--   countable      the most units of a window that the stored fields can count; 2^45, if absent
--   holdable       true if units can be held. Held units are in a state of their own, of the kind HOLDS plus this one
--
-- An algorithm is five operations on a state's table. st.limit is the limit as last charged. All fields of a state
-- without admissions are 0.
--
--   usage(st, rec, strict, spec)           returns the units that count now, and must be called before charge and
--                                          room_at. spec is that of the request, if there is one
--   charge(st, rec, limit, units)          admits units now
--   room_at(st, rec, over, most, strict)   returns the first ms at which at most `most` units count; now, `over` more
--                                          do
--   matters_until(st)                      returns the last ms at which the state can matter
--
--   empty_at(st, rec, strict)              returns the first ms at which nothing counts any more, after usage, and
--                                          after charge if something was admitted
--
-- An algorithm may have three more functions. `straight` decides the most common case in one step: one window of an
-- inline record. It gives the same reply and stores the same bytes as the operations. `asked(q, text, at)` sets in a
-- spec's table what its text says about windows from an index on, if that has another form than in spec.lua.
-- `empty_after(st, ms, limit, units, strict)` returns the first ms at which units that were charged at a ms, which
-- nothing else was, no longer count. All holdable algorithms have it but slots. If units drain, it returns when nothing
-- would be used if so many more were charged now.
local lib = ...

lib.algorithms = {} -- by kind; written only by register, while the library is loaded

-- register adds a kind of states, and returns it.
function lib.register(algorithm)
  assert(not lib.algorithms[algorithm.kind], 'a kind that is registered twice')
  lib.algorithms[algorithm.kind] = algorithm
  return algorithm
end

-- is_window reports whether a window has a valid length.
function lib.is_window(_, window) return window >= 1 and window <= lib.layout.YEAR end
