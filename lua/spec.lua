-- spec.lua: what a request asks for, as it is sent over the wire, see SPEC in messages.lua.
local lib = ...

local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local schema, record = lib.schema, lib.record
local messages = lib.messages
local RESET, CALENDAR = schema.RESET, messages.CALENDAR
local NONE = { text = '', bytes = -1, names = {} } -- stands for a directory that no record has
local spec = {}
lib.spec = spec

-- windows_of reads the windows in a spec's text from an index on.
local function windows_of(q, text, at)
  while at <= #text do
    local i, parameter, begins, window, limit = q.count + 1, q.parameter, false
    window, limit, at = unpack(messages.WINDOW, text, at)
    if window > CALENDAR then
      window, parameter, at = window - CALENDAR, unpack(messages.PARAMETER, text, at)
      begins, q.dated = lib.fixed.begins(parameter), true
    end
    q.count, q.parameters[i], q.windows[i], q.limits[i] = i, parameter, window, limit
    q.longest = math.max(q.longest, window)
    q.each[i] = { window = window, limit = limit, needs = q.needs, cost = q.cost, parameter = parameter,
      strict = q.strict, only_by_clock = true, begins = begins }
    q.names[i] = pack(schema.STATE, q.kind, parameter, window)
    q.pairs = q.pairs .. pack(schema.NAME, q.kind, parameter, window, limit)
  end
end

-- of returns a table with what a spec's text says. Its fields:
--   cost, needs     the units that a request takes, and the units that must be free for it: the cost, at least 1 (of a
--                   rate, the cost)
--   strict, shard   its flags
--   kind, parameter, algorithm
--   count, parameters, windows, limits, names
--                   the number of windows, and by window its parameter, its ms, its limit, and the bytes that name its
--                   state
--   dated           whether any is a calendar window
--   begins          the ms at which the first window begins if it is a calendar window; otherwise false
--   pairs           per window, its name with the limit, in one string
--   window, limit   of the first window
--   each            by window, what a straight function must know to decide it with others
--   interval        of a rate the ns between units, 1 if units drain in another way; otherwise 0
--   about           the text from the flags to the end: what a lease summary is about
--   last            the index of the last byte of a record to read, as text: if states of the kind have areas, the last
--                   one of an inline record with that directory
--   straight        the algorithm's straight function, if it has one
--   longest         the ms of the longest window
--   fresh           the directory of a record that has only these states
--   directory, place
--                   the directory of the record that was read last, and the place in it of the first of these states,
--                   which is false without one, or without straight
--   areas           whether states of the kind have areas
--   only_by_clock   whether the fast path must not decide when the key's newest charge is later than the clock
--   forms           see fast_holds.lua
--   prefixed        the length of the text 1 byte, and the text
spec.of = record.cache(1000, function(text)
  local cost, flags, kind, parameter = unpack(messages.SPEC, text)
  local q = { text = text, cost = cost, needs = cost > 0 and cost or 1, strict = flags % 2 == 1, shard = flags >= 2,
    kind = kind, parameter = parameter, algorithm = lib.algorithms[kind], count = 0, parameters = { parameter },
    windows = {}, limits = {}, names = {}, each = {}, dated = false, begins = false, window = 0, limit = 0, longest = 0,
    interval = 0, pairs = '',
    about = sub(text, messages.FLAGS_AT), prefixed = pack(messages.LENGTH, #text) .. text, straight = false,
    fresh = NONE, directory = NONE, place = false, last = tostring(schema.INLINE - 1), only_by_clock = false,
    areas = false, forms = false }
  if kind == RESET or #text < messages.WINDOWS_AT then return q end
  if not q.algorithm or not q.algorithm.charge then
    error({ err = 'ERR a spec of unknown kind ' .. kind })
  end
  local read = q.algorithm.asked or windows_of
  read(q, text, messages.WINDOWS_AT)
  q.fresh, q.window, q.limit = record.new(q.pairs, q.count), q.windows[1], q.limits[1]
  q.directory, q.last, q.straight = q.fresh, q.fresh.last, q.algorithm.straight
  q.begins = q.dated and q.each[1].begins
  q.place, q.only_by_clock = q.straight and 1 or false, q.count > 1 or q.shard
  q.areas = (q.fresh.slots[1] or q.fresh.area[1]) > 0
  return q
end)

-- place finds the first state of a spec, with the spec's limit, in the record that begins with s. It returns the
-- record's directory and the place, which is false if the state is missing, and stores both in the spec.
function spec.place(q, key, s)
  local d, place = record.directory(key, s), false
  if d.text == q.fresh.text then d = q.fresh end -- the cache may have made another table for the text
  for j = 1, d.count do place = d.names[j] == q.fresh.names[1] and j or place end
  q.directory, q.place = d, q.straight and not d.advances and place or false -- the slow path counts what is advanced
  if q.areas then q.last = d.last end
  return d, q.place
end
