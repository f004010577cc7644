-- fast_holds.lua: the fast path of RL.RESERVE and RL.SETTLE, and of RL.ACQUIRE and RL.RELEASE. It decides the most
-- common case: one window of RL.SLIDE, or slots, and a record whose only states are the log of this window and its held
-- units, all of which are charged when they lapse, or all forgotten. It composes an inline record anew, and patches a
-- longer one. It stores the same bytes and gives the same answers as the slow path.
local lib = ...

local call, unpack, pack, format = redis.call, struct.unpack, struct.pack, string.format
local sub, byte, max, min = string.sub, string.byte, math.max, math.min
local schema, messages, record, rate, slide, holds, ask =
  lib.schema, lib.messages, lib.record, lib.rate, lib.slide, lib.holds, lib.ask
local SLIDE, CONCURRENCY, ENTRY, CELL = slide.kind, holds.CONCURRENCY, schema.ENTRY_BYTES, schema.CELL_BYTES
local HEAD, NAME, SHIFT, FIELDS = schema.HEAD_BYTES, schema.NAME_BYTES, schema.SHIFT, slide.fields().bytes
local LAST = tostring(schema.INLINE + schema.INLINE_MORE - 1) -- the last byte of an inline record with two states
local NO_CELL, NO_HELD = string.rep('\0', CELL), string.rep('\0', holds.form.bytes)
local fast_holds = {}
lib.fast_holds = fast_holds

-- forms_of returns the forms that such a record can have for a spec: none, held, log and both by the states that it
-- has, and all by the text of the directory. A form has this text (head), the size below which the record is inline
-- (inline), the indexes of the fields of the held units and of the log (held, log), false if there are none, and the
-- index of the first area (begin). Other specs have no forms.
local function forms_of(q)
  local forms = {}
  if q.kind ~= SLIDE and q.kind ~= CONCURRENCY or q.count > 1 or q.shard or q.limit > 1e12 then return forms end
  local log, held = q.pairs, pack('>B', schema.HOLDS + q.kind) .. sub(q.pairs, 2)
  local function form(names, count, has_held, has_log)
    local d = record.new(names, count)
    local f = { head = d.text, inline = d.inline, held = has_held and d.at[1], log = has_log and d.at[count],
      begin = d.head + 1 }
    forms[d.text] = f
    return f
  end
  forms.held, forms.log, forms.both = form(held, 1, true, false), form(log, 1, false, true),
    form(held .. log, 2, true, true)
  forms[''] = { head = '', inline = schema.INLINE, held = false, log = false, begin = 1 }
  return forms
end

-- What read has read of a key's record, for reserve and settle, which change it to what the record is to be and write
-- that. seen is written by read, but ending and the last two, which settle changes; held has the fields of the held
-- units as holds.form reads them.
--   q, key, release    the spec, the stored key, and whether its units are forgotten when they lapse
--   form, s            the form, and the record, or its first bytes if it is long
--   long               whether it is not inline
--   was                the last ms at which it matters
--   text, cells        a string that has the cells, and the index in it of the first one
--   stored             the number of cells
--   entries            the index in the record at which the area of the log begins
--   ending             the last ms at which the log matters, 0 without one
--   log_fields, log_area
--                      what is stored of an inline record's log, or false: it stays as it is
local seen = { q = false, key = '', release = false, form = false, s = '', long = false, was = 0, text = '', cells = 0,
  stored = 0, entries = 0, ending = 0, log_fields = false, log_area = false }
local held = {}

-- The names of fields in held, by whether its units are forgotten when they lapse.
local UNITS, LATEST = { [true] = 'release', [false] = 'charge' }, { [true] = 'last_release', [false] = 'last_charge' }

-- matters_until returns the last ms at which units with a deadline matter.
local function matters_until(deadline)
  if seen.release then return deadline - 1 end
  return slide.dated(deadline, seen.q.limit, seen.q.window) + seen.q.window
end

-- read reads a key's record, for units that are forgotten when they lapse or not. It returns false if the record has
-- none of the forms, or its log or a cell has ended.
local function read(q, key, clock, release)
  q.forms = q.forms or forms_of(q)
  if not q.forms.both then return false end
  local s = call('GETRANGE', key, '0', LAST)
  local form = q.forms[sub(s, 1, HEAD + NAME * (byte(s, HEAD) or 0))]
  if not form or #s < form.begin - 1 then return false end
  local long, text, cells, entries, was, ending = #s >= form.inline, s, form.begin, form.begin, 0, 0
  seen.q, seen.key, seen.release, seen.form, seen.s, seen.long = q, key, release, form, s, long
  holds.form.read(held, form.held and s or NO_HELD, form.held or 1)
  local count, slots = held.cells, held.slots
  if form.held then
    local others = held[UNITS[not release]] + held[LATEST[not release]]
    if held.last > clock or count > 0 and held.next <= clock or others > 0 or held[UNITS[release]] > schema.UNITS then
      return false
    end
    if count > slots or slots > schema.CELLS or count < slots and not long then return false end
    entries = cells + slots * CELL
    if count > 0 then was = matters_until(held[LATEST[release]]) end
    if long and cells + count * CELL > #s + 1 then
      text, cells = call('GETRANGE', key, format('%d', cells - 1), format('%d', cells + count * CELL - 2)), 1
      if #text < count * CELL then return false end
    end
  end
  local stop = entries
  if form.log then
    local charged, _, length, ring, _, newest = unpack('>I6I4I3I3I15I6', s, form.log)
    ending, stop = newest + q.window, stop + ring * ENTRY
    if charged > clock or ending < clock or length == 0 or length ~= ring and not long then return false end
    was = max(was, ending)
  end
  seen.text, seen.cells, seen.stored, seen.entries, seen.was, seen.ending = text, cells, count, entries, was, ending
  seen.log_fields, seen.log_area = false, false
  return long or stop == #s + 1
end

-- cell_of packs a cell.
local function cell_of(deadline, units, in_cell)
  return pack(schema.CELL, deadline, seen.release and 0 or units, seen.release and units or 0, in_cell)
end

-- write stores a changed cell, the fields of the held units and, of an inline record, the log. The cell belongs at
-- index `at` of seen.text. It takes the place of the one that is there, or is inserted if there is none for its
-- deadline. An empty cell removes it. write returns false, and has written nothing, if there is no room.
local function write(at, there, cell, expires)
  local key, s, text, cells, entries = seen.key, seen.s, seen.text, seen.cells, seen.entries
  local after, moves = at + (there and CELL or 0), expires ~= seen.was
  if seen.long then
    if held.cells > held.slots then return false end
    if cell == '' or not there then cell = cell .. sub(text, after, cells + seen.stored * CELL - 1) end
    if held.cells < seen.stored then cell = cell .. NO_CELL end
    call('SETRANGE', key, format('%d', seen.form.held - 1), holds.form.write(held))
    local area = entries - held.slots * CELL
    -- it returns the record's length
    if call('SETRANGE', key, format('%d', area + at - cells - 1), cell) < entries - 1 then
      record.damaged(key, 'it ends within its areas')
    end
    if moves then record.expire(key, expires) end
    return true
  end
  held.slots = held.cells
  local forms, log, log_fields, log_area = seen.q.forms, seen.form.log, seen.log_fields, seen.log_area
  if log and not log_fields then log_fields, log_area = sub(s, log, log + FIELDS - 1), sub(s, entries) end
  local to, now = forms.log
  if held.cells == 0 then
    now = to.head .. log_fields .. log_area
  else
    if seen.stored > 0 then cell = sub(s, cells, at - 1) .. cell .. sub(s, after, entries - 1) end
    to = log_fields and forms.both or forms.held
    now = to.head .. holds.form.write(held) .. (log_fields or '') .. cell .. (log_area or '')
  end
  if #now >= to.inline then return false end
  record.store(key, s, now, expires, moves, true)
  return true
end

local ANY = 2 ^ 50 -- in place of a limit: any cost fits

-- What decide passes on: the spec, see spec.lua, and the rest, see lib.ask.
local asked = { window = 0, limit = 0, needs = 0, cost = 0, only_by_clock = true }
local more = { now = 0, bound = false, held = 0, key = false }

-- decide has the log, which may not exist yet, decided by slide.straight, which also writes it if the record is long.
-- It asks for the wanted units, and charges cost of them. bound is false, ANY, or what the held units leave of the
-- limit.
local function decide(wanted, cost, bound)
  local q, log = seen.q, seen.form.log
  if q.kind == CONCURRENCY then -- nothing is charged
    if bound >= wanted then return SHIFT, 0, 0, false end
    return
  end
  asked.window, asked.limit, asked.needs, asked.cost = q.window, q.limit, wanted, cost
  ask.more, more.now, more.bound, more.held = more, ask.clock, bound, held[UNITS[seen.release]]
  more.key = seen.long and log and seen.key
  return slide.straight(asked, log and seen.s or '', log, seen.entries, 1, false)
end

-- ends returns the ms at which the first cells that have `over` units no longer count in the window of a log, which is
-- empty at a ms.
local function ends(over, empty)
  local from, till = seen.cells, 0
  while over > 0 do
    local deadline, units = unpack('>I6I6', seen.text, from)
    from, till, over = from + CELL, deadline, over - units
  end
  return max(matters_until(till) + 1, empty)
end

-- empty_at returns the ms at which nothing counts any more of a window whose log is empty at a ms.
local function empty_at(empty)
  return holds.ends_after(empty, seen.q.window, seen.q.limit, held.last_charge, held.last_release)
end

-- reserve holds units for ttl ms, if there is room. It returns the reply of an entry, see decide.lua, and the deadline
-- if it holds them. It returns nothing, and has written nothing, if the slow path has to decide.
function fast_holds.reserve(q, ttl, release, key, clock)
  if not read(q, key, clock, release) or held.holds >= holds.MOST then return end
  local units, latest, most, bound = UNITS[release], LATEST[release], q.limit - q.cost, false
  local had = held[units]
  if release then bound = q.limit - had elseif had > most then bound = ANY end
  local rated, used, empty = decide(q.cost, 0, bound)
  if not rated or most < 0 then return end
  used = used + had
  if bound == ANY then rated, ask.room = rated - SHIFT, ends(had - most, empty) end
  if rated < SHIFT then
    empty = empty_at(empty)
    if held.cells == 0 then return pack(messages.DENIED, rated, used, ask.room, empty) end
    return pack(messages.BESIDE, messages.HELD, 0, rated, used, ask.room, empty)
  end
  local till = holds.deadline(clock, ttl, held.cells >= holds.CROWD)
  local at, charge, released, in_cell = holds.seek(seen.text, seen.cells, held.cells, till)
  if seen.long and not seen.form.held then return end
  held.rate = rate.charged(clock, held.last, held.rate, clock)
  held.last, held.holds, held[units], held[latest] = clock, held.holds + 1, had + q.cost, max(held[latest], till)
  if in_cell == 0 then
    held.next = held.cells > 0 and min(held.next, till) or till
    held.cells = held.cells + 1
  end
  local cell = cell_of(till, charge + released + q.cost, in_cell + 1)
  if not write(at, in_cell > 0, cell, max(matters_until(held[latest]), seen.ending)) then return end
  return pack(messages.BESIDE, messages.HELD, 0, rated, used, 0, empty_at(empty)), till
end

-- settle ends a hold with the deadline `till`, and charges its final cost. It returns false, and has written nothing,
-- if the slow path has to decide.
function fast_holds.settle(q, till, release, key, clock, cost)
  if cost > q.cost or not read(q, key, clock, release) or seen.long and cost > 0 and not seen.form.log then
    return false
  end
  local units, latest, text = UNITS[release], LATEST[release], seen.text
  local at, charge, released, in_cell = holds.seek(text, seen.cells, held.cells, till)
  local had, cell = charge + released, ''
  if in_cell == 0 or had < q.cost or (in_cell == 1) ~= (had == q.cost) or held.holds < in_cell or held[units] < had then
    return false
  end
  if cost > 0 then
    local rated, _, empty, fields = decide(cost, cost, ANY)
    if not rated then return false end
    seen.ending, seen.log_fields, seen.log_area = empty - 1, fields, ask.area
  elseif not seen.form.log and held.holds == 1 then
    call('UNLINK', key) -- nothing is left
    return true
  end
  held.holds, held[units] = held.holds - 1, held[units] - q.cost
  if in_cell > 1 then
    cell = cell_of(till, had - q.cost, in_cell - 1)
  else
    held.cells = held.cells - 1
    if held.cells > 0 and till == held[latest] then held[latest] = unpack('>I6', text, at - CELL) end
    if held.cells > 0 and till == held.next then held.next = unpack('>I6', text, at + CELL) end
  end
  local expires = held.cells > 0 and max(seen.ending, matters_until(held[latest])) or seen.ending
  return write(at, true, cell, expires)
end
