-- fast_holds.lua: the fast path of RL.RESERVE and RL.SETTLE, and of RL.ACQUIRE and RL.RELEASE. It decides the most
-- common case: one window of RL.SLIDE, or slots, and a record whose only states are the log of this window and its held
-- units, all of which are charged when they lapse, or all forgotten. It composes an inline record anew, and patches a
-- longer one. It stores the same bytes and gives the same answers as the slow path.
local lib = ...

local call, unpack, pack, format = redis.call, struct.unpack, struct.pack, string.format
local sub, byte = string.sub, string.byte
local max, min = math.max, math.min
local layout, record, rate, slide, holds = lib.layout, lib.record, lib.rate, lib.slide, lib.holds
local SLIDE, CONCURRENCY, ENTRY, CELL = slide.kind, holds.CONCURRENCY, layout.ENTRY_BYTES, layout.CELL_BYTES
local HEAD, NAME, SHIFT = layout.HEAD_BYTES, layout.NAME_BYTES, layout.SHIFT
-- the index of the first field of a record with one state, and with two
local ONE, TWO = HEAD + NAME + 1, HEAD + 2 * NAME + 1
local FIELDS, HELD = slide.fields().bytes, holds.BYTES
local LAST = tostring(layout.INLINE + layout.INLINE_MORE - 1) -- the last byte of an inline record with two states
local NO_CELL = string.rep('\0', CELL)
local fast_holds = {}
lib.fast_holds = fast_holds

-- forms_of returns the forms that such a record can have, by directory, for a spec. A form has the directory (head),
-- the size below which the record is inline (inline), the indexes of the fields of the held units and of the log (held,
-- log), false if there are none, and the index of the first area (begin). Other specs have no forms.
local function forms_of(q)
  local log, held, forms = q.pairs, pack('>B', layout.HOLDS + q.kind) .. sub(q.pairs, 2), {}
  local function form(count, names, held_at, log_at, begin)
    local head = count > 0 and pack('>BI2', layout.VERSION, count) .. names or ''
    forms[head] = { head = head, held = held_at, log = log_at, begin = begin,
      inline = layout.INLINE + (count > 1 and layout.INLINE_MORE or 0) }
    return forms[head]
  end
  if q.kind ~= SLIDE and q.kind ~= CONCURRENCY or q.count > 1 or q.shard or q.limits[1] > 1e12 then return forms end
  form(0, '', false, false, 1)
  forms.held = form(1, held, ONE, false, ONE + HELD)
  forms.log = form(1, log, false, ONE, ONE + FIELDS)
  forms.both = form(2, held .. log, TWO, TWO + HELD, TWO + HELD + FIELDS)
  return forms
end

-- What read has read of a key's record:
--   form, s       its form, and the record, or its first bytes if it is long: not inline
--   was, ending   the last ms at which the record matters, and at which its log does; 0 without one
--   text, cells   a string that has the cells, and the index in it of the first one
--   entries       the index in the record at which the area of the log begins
--   stored        the number of cells
--   forgets       whether the held units are forgotten when they lapse
--   count to soonest
--                 the fields of the held units, which the functions below change: count is cells in layout.lua, calls
--                 is rate, n is holds, units is charge or release, latest is charged or released, soonest is next, and
--                 the others have their names there
local form, s, long, was, ending, text, cells, entries = false, '', false, 0, 0, '', 0, 0
local stored, forgets, count, slots, last, calls = 0, false, 0, 0, 0, 0
local n, units, lapsed, latest, soonest = 0, 0, 0, 0, 0

-- matters_until returns the last ms at which units with a deadline matter.
local function matters_until(q, deadline)
  if forgets then return deadline - 1 end
  return slide.dated(deadline, q.limits[1], q.windows[1]) + q.windows[1]
end

-- read reads a key's record, for units that are forgotten when they lapse or not. It returns false if the record has
-- none of the forms, or its log or a cell has ended.
local function read(q, key, clock, release)
  q.forms = q.forms or forms_of(q)
  if not q.forms.both then return false end
  s = call('GETRANGE', key, '0', LAST)
  form = q.forms[sub(s, 1, HEAD + NAME * (byte(s, HEAD) or 0))]
  if not form or #s < form.begin - 1 then return false end
  long, was, ending, text, cells, entries = #s >= form.inline, 0, 0, s, form.begin, form.begin
  stored, forgets, count, slots, last, calls, n, units, lapsed, latest, soonest = 0, release, 0, 0, 0, 0, 0, 0, 0, 0, 0
  if form.held then
    local others, other
    last, calls, count, slots, n, units, others, lapsed, latest, other, soonest =
      unpack('>I6I4I3I3I3I6I6I4I6I6I6', s, form.held)
    if release then units, others, latest, other = others, units, other, latest end
    if last > clock or count > 0 and soonest <= clock or others + other > 0 or units > layout.UNITS then
      return false
    end
    if count > slots or slots > layout.CELLS or count < slots and not long then return false end
    stored, entries = count, cells + slots * CELL
    if count > 0 then was = matters_until(q, latest) end
    if long and cells + count * CELL > #s + 1 then
      text, cells = call('GETRANGE', key, format('%d', cells - 1), format('%d', cells + count * CELL - 2)), 1
      if #text < count * CELL then return false end
    end
  end
  local stop = entries
  if form.log then
    local charged, _, length, ring, _, newest = unpack('>I6I4I3I3I15I6', s, form.log)
    ending, stop = newest + q.windows[1], stop + ring * ENTRY
    if charged > clock or ending < clock or length == 0 or length ~= ring and not long then return false end
    was = max(was, ending)
  end
  return long or stop == #s + 1
end

-- fields packs the fields of the held units.
local function fields()
  if count == 0 then return pack('>I10I3I3', 0, 0, slots) .. string.rep('\0', HELD - 16) end
  return pack(forgets and '>I6I4I6I3I12I4I12I6' or '>I6I4I6I3I6I10I6I12', last, calls, count * SHIFT + slots, n, units,
    lapsed, latest, soonest)
end

-- seek finds the cell of a deadline. It returns its index in text, its units and its holds, 0 if there is none.
local function seek(deadline)
  local at, charge, release, in_cell = holds.seek(text, cells, count, deadline)
  return at, forgets and release or charge, in_cell
end

-- cell_of packs a cell.
local function cell_of(deadline, had, in_cell)
  return pack(forgets and '>I6I12I3' or '>I6I6I9', deadline, had, in_cell)
end

-- write stores a changed cell and the fields of the held units. The cell belongs at index `at` of text. It takes the
-- place of the one that is there, or is inserted if there is none for its deadline. An empty cell removes it. write
-- also stores the fields and the area of an inline record's log, if they are given. It returns false, and has written
-- nothing, if there is no room.
local function write(q, key, at, there, cell, expires, log_fields, log_area)
  local after = at + (there and CELL or 0)
  if long then
    if count > slots then return false end
    if cell == '' or not there then cell = cell .. sub(text, after, cells + stored * CELL - 1) end
    if count < stored then cell = cell .. NO_CELL end
    call('SETRANGE', key, format('%d', form.held - 1), fields())
    local area = entries - slots * CELL
    -- it returns the record's length
    if call('SETRANGE', key, format('%d', area + at - cells - 1), cell) < entries - 1 then
      record.damaged(key, 'it ends within its areas')
    end
    if expires ~= was then record.expire(key, expires) end
    return true
  end
  slots = count
  local log, to, now = form.log, q.forms.log
  if log and not log_fields then log_fields, log_area = sub(s, log, log + FIELDS - 1), sub(s, entries) end
  if count == 0 then
    now = to.head .. log_fields .. log_area
  else
    if stored > 0 then cell = sub(s, cells, at - 1) .. cell .. sub(s, after, entries - 1) end
    to = log_fields and q.forms.both or q.forms.held
    now = to.head .. fields() .. (log_fields or '') .. cell .. (log_area or '')
  end
  if #now >= to.inline then return false end
  record.store(key, s, now, expires, expires ~= was, true)
  return true
end

local ANY = 2 ^ 50 -- in place of a limit: any cost fits

-- The spec that ask passes on, see spec.lua.
local asked = { windows = {}, limits = {}, needs = 0, cost = 0, only_by_clock = true }

-- ask has the log, which may not exist yet, decided by slide.straight, which also writes it if the record is long. It
-- asks for the wanted units, and charges cost of them. bound is nil, ANY, or what the held units leave of the limit.
local function ask(q, key, clock, wanted, cost, bound)
  if q.kind == CONCURRENCY then -- nothing is charged
    if bound >= wanted then return 1, 0, 0, 0, 0 end
    return
  end
  asked.windows, asked.limits, asked.needs, asked.cost = q.windows, q.limits, wanted, cost
  local log = form.log
  local patched = long and log and key
  return slide.straight(asked, 1, log and s or '', log, entries, clock, clock, 1, bound, nil, units, patched)
end

-- ends returns the ms at which the first cells that have `over` units no longer count in the window of a log, which is
-- empty at a ms.
local function ends(q, over, empty)
  local from, till = cells, 0
  while over > 0 do
    local deadline, more = unpack('>I6I6', text, from)
    from, till, over = from + CELL, deadline, over - more
  end
  return max(matters_until(q, till) + 1, empty)
end

-- empty_at returns the ms at which nothing counts any more of a window whose log is empty at a ms.
local function empty_at(q, empty)
  return holds.ends_after(empty, q.windows[1], q.limits[1], forgets and 0 or latest, forgets and latest or 0)
end

-- reserve holds units for ttl ms, if there is room. It returns the reply of an entry, see decide.lua, and the deadline
-- if it holds them. It returns nothing, and has written nothing, if the slow path has to decide.
function fast_holds.reserve(q, ttl, release, key, clock)
  if not read(q, key, clock, release) or n >= holds.MOST then return end
  local most, bound = q.limits[1] - q.cost
  if release then bound = q.limits[1] - units elseif units > most then bound = ANY end
  local granted, rated, used, room, empty = ask(q, key, clock, q.cost, 0, bound)
  if not granted or most < 0 then return end
  used = used + units
  if bound == ANY then granted, room = 0, ends(q, units - most, empty) end
  if granted == 0 then
    empty = empty_at(q, empty)
    if count == 0 then return pack('>I8I6I6I6', rated, used, room, empty) end
    return pack('>I4I7I6I6I6', layout.HELD * SHIFT, rated, used, room, empty)
  end
  local till = holds.deadline(clock, ttl, count >= holds.CROWD)
  local at, had, in_cell = seek(till)
  if long and not form.held then return end
  calls = rate.charged(clock, last, calls, clock)
  last, n, units, latest = clock, n + 1, units + q.cost, max(latest, till)
  if in_cell == 0 then count, soonest = count + 1, count > 0 and min(soonest, till) or till end
  local expires = max(matters_until(q, latest), ending)
  if not write(q, key, at, in_cell > 0, cell_of(till, had + q.cost, in_cell + 1), expires) then return end
  return pack('>I4I7I6I12', layout.HELD * SHIFT, SHIFT + rated, used, empty_at(q, empty)), till
end

-- settle ends a hold with the deadline `till`, and charges its final cost. It returns false, and has written nothing,
-- if the slow path has to decide.
function fast_holds.settle(q, till, release, key, clock, cost)
  if cost > q.cost or not read(q, key, clock, release) or long and cost > 0 and not form.log then return false end
  local at, had, in_cell = seek(till)
  if in_cell == 0 or had < q.cost or (in_cell == 1) ~= (had == q.cost) or n < in_cell or units < had then
    return false
  end
  local cell, log_fields, log_area = ''
  if cost > 0 then
    local granted, empty, _
    granted, _, _, _, empty, log_fields, _, _, log_area = ask(q, key, clock, cost, cost, ANY)
    if not granted then return false end
    ending = empty - 1
  elseif not form.log and n == 1 then
    call('UNLINK', key) -- nothing is left
    return true
  end
  n, units = n - 1, units - q.cost
  if in_cell > 1 then
    cell = cell_of(till, had - q.cost, in_cell - 1)
  else
    count = count - 1
    if count > 0 and till == latest then latest = unpack('>I6', text, at - CELL) end
    if count > 0 and till == soonest then soonest = unpack('>I6', text, at + CELL) end
  end
  local expires = count > 0 and max(ending, matters_until(q, latest)) or ending
  return write(q, key, at, true, cell, expires, log_fields, log_area)
end
