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
--   empty_at(st, rec, strict)              returns the first ms at which nothing counts any more, after usage, and
--                                          after charge if something was admitted
--
-- An algorithm whose units can be advanced has one more, of two: `late(st, rec, ms, units)` charges units at a ms that
-- is not after the newest charge, and `insert(st, rec, limit, moments, units)` at several moments, in order, before the
-- newest charge or after it. If units drain, charge does as well.
--
-- An algorithm may have four more functions. `straight` is described with lib.ask. `asked(q, text, at)` sets
-- in a spec's table what its text says about windows from an index on, if that has another form than in spec.lua.
-- `empty_after(st, ms, limit, units, strict)` returns the first ms at which units that were charged at a ms, which
-- nothing else was, no longer count. All holdable algorithms have it but slots. If units drain, it returns when nothing
-- would be used if so many more were charged now. `append(st, limit, moments, units)` charges units that were held at
-- several moments, in order and after the newest charge, after usage at the last of them. Additive algorithms have it.
local lib = ...

-- The common case of a decision in one step, by a straight function:
--
--   straight(q, s, at, begin, requests, head)
--
-- decides one window for a number of equal requests. q has its window, limit, needs and cost, see spec.lua. s is a
-- record with the fields of the window's state at index `at` and its area at index begin, or s is empty. head is the
-- text with which the whole record begins, if straight is to compose that, else false. It returns
--
--   rated    the number of requests granted times SHIFT, plus the calls per second that charge
--   used     the units used before
--   empty    the ms at which the window is empty
--   fields   if it charges, the packed fields, or the whole record; otherwise false
--
-- or nothing if the operations have to decide: for a record that these do not write, and if it would have to read more
-- or, at a split key or beside held units, to deny. Then it has written nothing. It gives the same reply and stores the
-- same bytes as the operations.
--
-- The rest of question and answer is in a table. lib.clock_of writes the clock, for the call. The caller writes `more`
-- before each straight function, which writes the others, for the caller.
--
--   clock        the ms of the call
--   more         false, or a table with what few windows need:
--     now        the latest ms in the record's other states, or the clock if that is later
--     bound      what takes the place of the limit, at the home or a shard of a split key, or beside held units; false
--     held       the units that are held until after the log has left the window, or 0
--     key        the stored key of a patched record, of which s is the first bytes; false. Only slide.straight decides
--                these, and writes them itself
--   room         if not all requests are granted: the ms at which there is room for one more
--   area         if it charges, without head and key: the area
--   ends, moves  if it charges: the last ms at which the state matters, and whether that has changed
lib.ask = { clock = 0, more = false, room = 0, area = '', ends = 0, moves = false }

lib.algorithms = {} -- by kind; written only by register, while the library is loaded

-- register adds a kind of states, and returns it.
function lib.register(algorithm)
  assert(not lib.algorithms[algorithm.kind], 'a kind that is registered twice')
  lib.algorithms[algorithm.kind] = algorithm
  return algorithm
end

-- is_window reports whether a window has a valid length.
function lib.is_window(_, window) return window >= 1 and window <= lib.schema.YEAR end
