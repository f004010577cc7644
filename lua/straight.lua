-- straight.lua: the fast path of RL.RESERVE and RL.SETTLE. It decides the most common case: one window of RL.SLIDE, and an
-- inline record whose only states are the log of this window and its held units, all of which are charged when they lapse.
-- It stores the same bytes and gives the same answers as the slow path.
local lib = ...

local call, unpack, pack, sub, byte = redis.call, struct.unpack, struct.pack, string.sub, string.byte
local max = math.max
local layout, record, rate, slide, holds = lib.layout, lib.record, lib.rate, lib.slide, lib.holds
local SLIDE, ENTRY, CELL, FIELDS, HELD = layout.SLIDE, layout.ENTRY_BYTES, layout.CELL_BYTES, 37, 47
local LAST = tostring(layout.INLINE + layout.INLINE_MORE - 1) -- the last byte of an inline record with two states
local straight = {}
lib.straight = straight

-- forms_of returns the forms that such a record can have, by directory, for a spec. A form has the directory (head), the size
-- below which the record is inline (inline), the indexes of the fields of the log and of the held units (log, held), false if
-- there are none, and the index of the first area (begin).
local function forms_of(q)
  local log, held, forms = q.pairs, pack('>B', layout.HOLDS + SLIDE) .. sub(q.pairs, 2), {}
  local function form(count, names, log_at, held_at, begin)
    local head = count > 0 and pack('>BI2', layout.VERSION, count) .. names or ''
    forms[head] = { head = head, log = log_at, held = held_at, begin = begin,
      inline = layout.INLINE + (count > 1 and layout.INLINE_MORE or 0) }
    return forms[head]
  end
  form(0, '', false, false, 1)
  forms.log, forms.held = form(1, log, 17, false, 17 + FIELDS), form(1, held, false, 17, 17 + HELD)
  forms.log_held = form(2, log .. held, 30, 30 + FIELDS, 30 + FIELDS + HELD)
  forms.held_log = form(2, held .. log, 30 + HELD, 30, 30 + FIELDS + HELD)
  return forms
end

-- The spec that ask passes to slide.straight, see spec.lua.
local asked = { windows = {}, limits = {}, ask = 0, cost = 0, still = true }

-- ask lets slide.straight decide the log of a record, which may not exist yet: it grants units, and charges cost of them.
local function ask(q, form, s, entries, clock, units, cost, bound)
  asked.windows, asked.limits, asked.ask, asked.cost = q.windows, q.limits, units, cost
  return slide.straight(asked, 1, form.log and s or '', form.log, entries, clock, clock, 1, bound)
end

-- read reads a key's record. It returns nothing if the record has none of the forms, or a state or cell has ended. Else it
-- returns
--   the form, and the record
--   was, ending     the last ms at which the record matters, and at which its log does; 0 without one
--   entries, cells  the indexes of the log's area and of the cells
--   the fields of the held units: the number of cells, last, rate, holds, units, lapsed, the latest deadline
local function read(q, key, clock)
  local window = q.windows[1]
  if q.kind ~= SLIDE or q.count > 1 or q.shard or q.limits[1] > 1e12 then return end
  local forms = q.forms or forms_of(q)
  local s = call('GETRANGE', key, '0', LAST)
  local form = forms[sub(s, 1, 3 + 13 * (byte(s, 3) or 0))]
  q.forms = forms
  if not form or #s >= form.inline then return end
  local begin, log, held = form.begin, form.log, form.held
  local was, ending, entries, cells, stop = 0, 0, begin, begin, begin
  if log then
    if #s < begin - 1 then return end
    local last, count, slots, newest = unpack('>I6xxxxI3I3xxxxxxxxxxxxxxxI6', s, log)
    ending, stop = newest + window, begin + slots * ENTRY
    if last > clock or ending < clock or last + window < clock or count ~= slots or count == 0 then return end
    was = ending
  end
  if not held then
    if stop ~= #s + 1 then return end
    return form, s, was, ending, entries, stop, 0, 0, 0, 0, 0, 0, 0
  end
  if #s < begin + CELL - 1 then return end
  local last, calls, count, slots, n, charge, release, lapsed, charged, released = unpack('>I6I4I3I3I3I6I6I4I6I6', s, held)
  if last > clock or count ~= slots or count == 0 or release + released > 0 or charge > layout.UNITS then return end
  if log and log < held then cells = stop else entries = begin + count * CELL end
  if stop + count * CELL ~= #s + 1 or unpack('>I6', s, cells) <= clock then return end
  return form, s, max(slide.dated(charged, q.limits[1], window) + window, was), ending, entries, cells, count, last, calls, n,
    charge, lapsed, charged
end

-- fields packs the fields of the held units.
local function fields(count, last, calls, n, units, lapsed, charged)
  return pack('>I6I4I6I3I6I10I6I6', last, calls, count * 16777217, n, units, lapsed, charged, 0)
end

-- reserve holds units until the deadline `till`, which must be the key's latest. It returns the entry's reply and the ms of
-- the decision. It returns nothing, and has written nothing, if the slow path has to decide.
function straight.reserve(q, till, release, key, clock)
  if release then return end
  local old, text, was, ending, entries, cells, count, last, calls, n, charge, lapsed, charged = read(q, key, clock)
  if not old or till < charged or n >= holds.MOST then return end
  local cost, begin, held = q.cost, old.begin, old.held
  local granted, rated, used, _, newest = ask(q, old, text, entries, clock, cost, 0, q.limits[1] - charge)
  if not granted then return end
  local stop, units, those = cells + count * CELL, cost, 1
  local from = stop
  if till == charged then -- the units are added to the last cell
    from, count = from - CELL, count - 1
    local _, before, _, more = unpack('>I6I6I6I3', text, from)
    units, those = units + before, more + 1
  end
  local changed = fields(count + 1, clock, rate.charged(clock, last, calls, clock), n + 1, charge + cost, lapsed, till)
  local cell, form, s = pack('>I6I6I6I3', till, units, 0, those), old
  if held then
    s = sub(text, 1, held - 1) .. changed .. sub(text, held + HELD, from - 1) .. cell .. sub(text, stop)
  else
    form = old.log and q.forms.log_held or q.forms.held
    s = form.head .. sub(text, #old.head + 1, begin - 1) .. changed .. sub(text, begin) .. cell
  end
  if #s >= form.inline then return end
  local dated = slide.dated(till, q.limits[1], q.windows[1])
  local expires = max(dated + q.windows[1], ending)
  record.store(key, text, s, expires, expires ~= was, true)
  return pack('>I4I7I6I12I6', layout.HELD * 16777216, 16777216 + rated, used + charge, max(newest, dated), 0), clock
end

-- settle ends a hold with the deadline `till`, and charges its final cost. It returns false, and has written nothing, if the
-- slow path has to decide.
function straight.settle(q, till, release, key, clock, cost)
  if release or cost > q.cost then return false end
  local old, text, was, ending, entries, cells, count, last, calls, n, charge, lapsed, charged = read(q, key, clock)
  if not old or count == 0 then return false end
  local at, units, _, those = holds.seek(text, cells, count, till)
  if those == 0 or units < q.cost or (those == 1) ~= (units == q.cost) or n < those or charge < units then return false end
  local stop, cell, form, log, area, s = cells + count * CELL, '', old, '', ''
  if those > 1 then
    cell = pack('>I6I6I6I3', till, units - q.cost, 0, those - 1)
  else
    count = count - 1
    if till == charged and count > 0 then charged = unpack('>I6', text, at - CELL) end
  end
  if cost > 0 then
    local granted
    granted, _, _, _, _, _, log, ending, _, area = ask(q, old, text, entries, clock, cost, cost, 2 ^ 50)
    if not granted then return false end
  elseif old.log then
    log, area = sub(text, old.log, old.log + FIELDS - 1), sub(text, entries, entries < cells and cells - 1 or -1)
  elseif count == 0 then
    return false -- nothing is left
  end
  if count == 0 then
    form = q.forms.log
    s = form.head .. log .. area
  else
    local changed = fields(count, last, calls, n - 1, charge - q.cost, lapsed, charged)
    local left = sub(text, cells, at - 1) .. cell .. sub(text, at + CELL, stop - 1)
    ending = max(ending, slide.dated(charged, q.limits[1], q.windows[1]) + q.windows[1])
    if old.log and entries < cells then
      s = form.head .. log .. changed .. area .. left
    else
      if log ~= '' then form = q.forms.held_log end
      s = form.head .. changed .. log .. left .. area
    end
  end
  if #s >= form.inline then return false end
  record.store(key, form == old and text or '', s, ending, ending ~= was, true)
  return true
end
