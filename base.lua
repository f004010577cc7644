#!lua name=rlproxy_313c8afc5a11
local function library()
local lib = {}
;(function(...)
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
  COUNTER_BYTES = 5,        -- of one counter of RL.COUNTER
  CELL_BYTES = 21,          -- of a cell, the holds of one deadline: the deadline 6, units to charge 6, to release 6, holds 3
  DIGEST_BYTES = 16,        -- of the digest before the table of a lease record, in hexadecimal
  SUMMARY_BYTES = 40,       -- of a lease summary, see lease.lua
  WRAP = 281474976710656,   -- running totals are kept modulo 2^48

  -- Offsets in the fields of a state, counted from 0: of slots in a log and in held units, and of ending and summary in a lease
  -- record.
  SLOTS_AT = 13, ENDING_AT = 6, SUMMARY_AT = 12,

  -- Packing costs time by the number of values. So the fast path and the fields of a log pack adjacent values as one: SHIFT
  -- times the first plus the second, which has 3 bytes. For example, '>I8' packs a byte 0, granted 4 and rate 3 as granted *
  -- SHIFT + rate, and '>I12' packs a 0 of 6 bytes before a value of 6.
  SHIFT = 16777216,

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
  -- used: the units in all counters. The area has buckets + 1 counters; that of sub-window k is in slot k % (buckets + 1).
  [layout.COUNTER] = {
    bytes = 16,
    read = function(st, s, at) st.last, st.rate, st.used = unpack('>I6I4I6', s, at) end,
    write = function(st) return pack('>I6I4I6', st.last, st.rate, st.used) end,
  },
  -- drained, beyond: the ms, and the ns beyond it, at which all charged units have drained. interval: ns between units.
  -- The window is 0.
  [layout.GCRA] = {
    bytes = 27,
    read = function(st, s, at) st.last, st.rate, st.drained, st.beyond, st.interval = unpack('>I6I4I6I3I8', s, at) end,
    write = function(st) return pack('>I6I4I6I3I8', st.last, st.rate, st.drained, st.beyond, st.interval) end,
  },
}

-- The fields of RL.FIXED are the same as those of RL.COUNTER. used: the units in the window of last.
layout.FIELDS[layout.FIXED] = layout.FIELDS[layout.COUNTER]

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
for _, kind in ipairs({ layout.SLIDE, layout.COUNTER, layout.FIXED, layout.CONCURRENCY }) do
  layout.FIELDS[layout.HOLDS + kind] = HELD
end

-- An RL.COUNTER with one sub-window stores its two counters, even and odd, among its fields and has no stored area. In memory
-- the two counters are its area.
local PAIR = {
  bytes = 20,
  read = function(st, s, at)
    local even, odd = unpack('>I5I5', s, at + 10)
    st.last, st.rate, st.area = unpack('>I6I4c10', s, at)
    st.used = even + odd
  end,
  write = function(st) return pack('>I6I4c10', st.last, st.rate, st.area) end,
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
end)(lib)
;(function(...)
-- record.lua: reads and writes the stored record of one client key, and finds states in it. layout.lua has the format.
--
-- The slow path uses this file as follows:
--   local rec = record.open(key, clock)      reads the record into memory: load checks it and reads the fields at the
--                                            offsets of its directory, which directory_of computes and caches
--   local was = record.ends()                the ms until which the stored record lives
--   local st = record.find(kind, 1, window)  a state; record.add(st) adds a new one
--   ...                                      an algorithm changes st, and reads its area with record.bytes
--   record.save(was)                         writes an inline record in one piece (compose, store), and of a patched one
--                                            the directory, the fields, and the bytes of areas that have changed (patch)
-- The fast path does not load the record: it reads fields at the directory's offsets, and writes with store. A value that no
-- function writes raises the error of record.damaged, which fails the entry and changes nothing.
--
-- Only one record is in memory at a time. Its tables are reused, because new ones for each entry cost time to create and
-- to collect. load sets every field that is read later.
local lib = ...

local call, unpack, pack = redis.call, struct.unpack, struct.pack
local sub, format, concat, max, min = string.sub, string.format, table.concat, math.max, math.min
local layout = lib.layout
local HEAD, NAME, ENTRY = layout.HEAD_BYTES, layout.NAME_BYTES, layout.ENTRY_BYTES
local SLIDE, COUNTER, FIXED, HOME, SHARD = layout.SLIDE, layout.COUNTER, layout.FIXED, layout.HOME, layout.SHARD
local STATES, YEAR, HOLDS = layout.STATES, layout.YEAR, layout.HOLDS
local record = {}
lib.record = record

-- about returns the error for a key whose record cannot be used.
local function about(key, why)
  return "ERR the stored record of '" .. string.gsub(key, '[%c]', '?') .. "' is " .. why .. '; RL.RESET removes it'
end

-- damaged raises the error for a key whose record is inconsistent, which fails the entry.
function record.damaged(key, why) error({ err = about(key, 'damaged: ' .. why) }) end

-- explain returns the text of an error that was raised for a key, and what is wrong with its record: 'damaged', 'not' (not of
-- this version of rlproxy), or nil. An error of Lua itself, which begins with a line of the library, comes from an invalid
-- number in the record. Other errors begin with a code. Redis's pcall returns the text of an error table, not the table.
function record.explain(key, why)
  why = tostring(type(why) == 'table' and why.err or why)
  if string.find(why, '^WRONGTYPE') then why = about(key, 'damaged: it is not a string') end
  if string.find(why, '^@?user_') then why = about(key, 'damaged: ' .. why) end
  return why, string.match(why, "^ERR the stored record of '.*' is (%a+)")
end

-- guarded returns a function that calls f and raises its errors as explain words them.
function record.guarded(f)
  return function(keys, args)
    local ok, reply = pcall(f, keys, args)
    if not ok then error({ err = (record.explain(keys[1], reply)) }) end
    return reply
  end
end

-- text_of returns the decimal text of a number. It caches the last one: a batch often converts the same number again, and that
-- is slow.
local converted, decimal
local function text_of(n)
  if n ~= converted then converted, decimal = n, format('%d', n) end
  return decimal
end

-- cache returns a function that calls make(key, more) and caches what it returned, for at most `most` keys. A full cache is
-- emptied.
function record.cache(most, make)
  local kept, count = {}, 0
  return function(key, more)
    local found = kept[key]
    if not found then
      found = make(key, more)
      if #key <= 256 then
        if count >= most then kept, count = {}, 0 end
        kept[key], count = found, count + 1
      end
    end
    return found
  end
end

-- KEPT has for how many windows a state may matter after its last charge, at most. A log with a grid may for more than one.
local KEPT = { [FIXED] = 1, [SLIDE] = 2, [COUNTER] = 3 }

-- windowed reports whether a state of a kind, or of its held units, can have this many buckets and this window.
local function windowed(kind, buckets, window)
  kind = kind % HOLDS
  if kind == layout.GCRA or kind == layout.CONCURRENCY then return window == 0 end
  return window >= 1 and window <= YEAR and (kind ~= COUNTER or buckets >= 1 and buckets <= min(window, layout.BUCKETS))
end

-- directory_of returns a table of what a record's directory determines:
--   text, bytes, count  the directory itself, its size and the number of states
--   head, inline, last  the bytes of directory and fields together, the inline size, and the latter minus 1 as text
--   lease               the index of the lease record, or false
--   held                whether there is a state of held units
-- and by state
--   twins               the index of the state of its window's held units, or false
--   kinds, limits, names
--   fields              how to read and write its fields, see layout.FIELDS
--   at, offsets         the index in the record at which its fields begin, and the same as text, counted from 0
--   keep, lives         for how many ms after its last charge it may matter at most, and is stored at least
--   slots, counters     the bytes of a slot of its area, or false, and the bytes of the area if it has no slots
--   states              a table to read it into
local directory_of = record.cache(1000, function(s, key)
  local count = (#s - HEAD) / NAME
  local d = { text = s, bytes = #s, count = count, kinds = {}, limits = {}, names = {}, at = {},
    keep = {}, lives = {}, slots = {}, counters = {}, states = {}, fields = {}, offsets = {}, twins = {}, lease = false,
    held = false, inline = layout.INLINE + layout.INLINE_MORE * max(count - 1, 0) }
  local at = #s + 1
  for i = 1, count do
    local from = HEAD + (i - 1) * NAME
    local kind, buckets, window, limit = unpack('>BI2I5I5', s, from + 1)
    local fields = layout.fields_of(kind, buckets)
    if not fields then record.damaged(key, 'a state of unknown kind ' .. kind) end
    if kind == HOME or kind == SHARD then
      if i < count then record.damaged(key, 'a state after the lease record') end
      d.lease = i
    elseif not windowed(kind, buckets, window) then
      record.damaged(key, 'a state without a window')
    end
    d.held = d.held or kind > HOLDS
    d.kinds[i], d.limits[i], d.at[i] = kind, limit, at
    d.states[i] = record.clean(record.state(kind, buckets, window))
    d.names[i], d.keep[i] = sub(s, from + 1, from + NAME), KEPT[kind] and KEPT[kind] * window or 2 ^ 50
    d.lives[i] = kind == SLIDE and window or 0
    d.slots[i], d.counters[i] = fields.slot or false, layout.counters_bytes(kind, buckets)
    d.twins[i], d.fields[i], d.offsets[i], at = false, fields, tostring(at - 1), at + fields.bytes
  end
  d.head, d.last = at - 1, tostring(d.inline - 1)
  for i = 1, d.held and count or 0 do
    for j = 1, count do
      if d.kinds[j] == d.kinds[i] + HOLDS and sub(d.names[j], 2, 8) == sub(d.names[i], 2, 8) then d.twins[i] = j end
    end
  end
  return d
end)

-- new returns the directory of a record with `count` states; names is the 13 bytes of each.
function record.new(names, count) return directory_of(pack('>BI2', layout.VERSION, count) .. names, '') end

-- directory returns the directory of the record that begins with s, and s, or more of the record if s ends within it.
function record.directory(key, s)
  if #s < HEAD then record.damaged(key, 'it has ' .. #s .. ' bytes') end
  local version, count = unpack('>BI2', s)
  if version ~= layout.VERSION then
    error({ err = about(key, 'not of this version of rlproxy') })
  end
  if count > 2 * STATES + 1 then record.damaged(key, 'it has ' .. count .. ' states') end
  local bytes = HEAD + count * NAME
  if #s < bytes then
    s = call('GETRANGE', key, '0', bytes - 1)
    if #s < bytes then record.damaged(key, 'it ends within its directory') end
  end
  return directory_of(sub(s, 1, bytes), key), s
end

-- The record in memory:
--   key, clock  the stored key, and the ms of the call
--   now         the ms by which its windows are decided: the clock, or the newest charge if that is later
--   text        its first bytes; of an inline record all of them
--   count       the number of states, which are at 1, 2 and so on, in the order of the record
--   lease       the state that is the lease record, or false
--   inline      whether it is an inline record
--   rewrite     whether the whole record has to be composed and written
--   bytes       its length as computed from its directory and fields
--   held        whether it has a state of held units
--   lapsed      how many lapsed holds were removed in memory; of several windows, the largest number
local rec = { key = '', clock = 0, now = 0, text = '', directory = false, count = 0, lease = false, inline = true,
  rewrite = false, bytes = 0, held = false, lapsed = 0 }

local ZEROS = string.rep('\0', 64) -- as many as any fields have bytes

-- state returns a state without admissions, which belongs to no record:
--   kind, buckets, window, limit
--                     its name in the record
--   begin             the index in the record at which its area begins; 0 if the state is in no record
--   area              the whole area, if all of it has changed
--   patch, patch_at   the bytes of the area that have changed, and their offset; of a log, the newest entry
--   block, from       bytes that were read of a patched record, and the index in the record at which they begin
--   held, asked       the state of its window's held units, and whether the request is about it, see holds.weigh
function record.state(kind, buckets, window)
  local st = { kind = kind, buckets = buckets, window = window, limit = 0, last = 0, rate = 0, begin = 0, area = false,
    patch = false, patch_at = 0, block = false, from = 0, held = false, asked = false }
  if kind ~= layout.CONCURRENCY then -- whose states have no fields
    layout.fields_of(kind, buckets).read(st, ZEROS, 1)
    st.area = st.area or string.rep('\0', layout.area_bytes(st))
  end
  return st
end

-- clean discards what a state in memory has apart from its fields: changes, and what was read of its area. It returns the state.
function record.clean(st)
  st.area, st.patch, st.block = false, false, false
  return st
end

-- load reads the record that begins with s into memory, and applies the holds that have lapsed. s has at least INLINE bytes of a
-- longer record; load reads up to the inline size if there may be more. d is the record's directory, if that is known.
function record.load(key, clock, s, d)
  for i = 1, rec.count do record.clean(rec[i]) end -- the states of the last record, whose tables are cached
  rec.key, rec.clock, rec.text, rec.directory, rec.count, rec.lease, rec.rewrite = key, clock, s, d, 0, false, false
  if s == '' then
    rec.now, rec.directory, rec.inline, rec.held, rec.lapsed = clock, false, true, false, 0
    return rec
  end
  if not d then
    d, s = record.directory(key, s)
    rec.directory = d
  end
  if #s >= layout.INLINE and #s < d.inline then s = call('GETRANGE', key, '0', d.inline - 1) end
  if #s < d.head then record.damaged(key, 'it ends within its fields') end
  local now, begin, inline = clock, d.head + 1, #s < d.inline
  rec.text, rec.inline = s, inline
  for i = 1, d.count do
    local st, kind = d.states[i], d.kinds[i]
    rec[i], rec.count = st, i
    d.fields[i].read(st, s, d.at[i])
    st.limit, st.begin, st.held, st.asked = d.limits[i], begin, false, false
    begin = begin + layout.area_bytes(st)
    if kind == SLIDE then
      if st.count > st.slots or st.first >= st.slots or st.slots > layout.SLOTS then
        record.damaged(key, 'a log of ' .. st.slots .. ' slots')
      end
      if st.newest > st.last + layout.GRID then record.damaged(key, 'an admission after the newest charge') end
    elseif kind > HOLDS and (st.cells > st.slots or st.slots > layout.CELLS or st.charge + st.release > layout.UNITS) then
      record.damaged(key, st.cells .. ' deadlines of holds')
    end
    if i == d.lease then
      rec.lease = st
      if st.slots > layout.LEASE_BYTES or st.ending > clock + 2 * layout.DELAY then
        record.damaged(key, 'a lease record without its table')
      end
      if st.ending < clock then rec.rewrite = true end -- drops the lease record
    else
      local last = st.last
      if last > now then now = last end
    end
  end
  if now > clock + YEAR then record.damaged(key, 'a charge in the far future') end
  rec.now, rec.bytes = now, begin - 1
  if inline and begin - 1 > #s then record.damaged(key, 'it ends within its areas') end
  rec.held, rec.lapsed = d.held, 0
  if d.held then lib.holds.lapse(rec) end
  return rec
end

-- open reads a key's record into memory.
function record.open(key, clock)
  return record.load(key, clock, call('GETRANGE', key, '0', layout.INLINE - 1))
end

-- find returns the state with this kind, number of buckets and window, if the record has one.
function record.find(kind, buckets, window)
  for i = 1, rec.count do
    local st = rec[i]
    if st.kind == kind and st.window == window and st.buckets == buckets then return st end
  end
end

-- twin returns the other state of a state's window: that of held units, or that of charged units.
local function twin(st) return record.find((st.kind + HOLDS) % (2 * HOLDS), st.buckets, st.window) end

local function matters(st) return st and lib.algorithms[st.kind].matters_until(st) >= rec.clock end

-- counts reports whether a state counts towards the most that a record may have: it can still matter, or is about to.
local function counts(st) return st and (st.asked or matters(st)) end

-- live returns how many windows count.
local function live()
  local n = 0
  for i = 1, rec.count do
    local st = rec[i]
    if st ~= rec.lease and counts(st) and not (st.kind > HOLDS and counts(twin(st))) then n = n + 1 end
  end
  return n
end

-- add appends a state to the record, before the lease record if there is one. States that have ended are dropped when the
-- record is written, so they do not count towards the most that a record may have.
function record.add(st)
  local count = rec.count + 1
  if st.kind == HOME or st.kind == SHARD then
    rec.lease = st
  elseif count > STATES and not counts(twin(st)) and live() >= STATES then
    error({ err = 'ERR too many windows on this key: at most ' .. STATES })
  end
  rec[count] = st
  if rec.lease and rec.lease ~= st then rec[count - 1], rec[count] = st, rec.lease end
  rec.count, rec.rewrite, st.begin = count, true, 1 -- its area is in memory
end

-- bytes returns a string that has `need` bytes of a state's area from `offset` on, and the index in it at which they begin. If
-- it has to read them from a patched record, it reads `ahead` bytes.
function record.bytes(st, offset, need, ahead)
  if st.area then return st.area, offset + 1 end
  local at = st.begin + offset
  local s = rec.text
  if at + need - 1 <= #s then return s, at end
  s = st.block
  if not s or at < st.from or at + need > st.from + #s then
    s = call('GETRANGE', rec.key, format('%d', at - 1), format('%d', at + ahead - 2))
    if #s < need then record.damaged(rec.key, 'it ends within its areas') end
    st.block, st.from = s, at
  end
  return s, at - st.from + 1
end

-- area returns a state's area with its changes.
function record.area(st)
  local size, change = layout.area_bytes(st), st.patch
  if size == 0 then return '' end
  if st.area then return st.area end
  local s, at = record.bytes(st, 0, size, size)
  if not change then return sub(s, at, at + size - 1) end
  return sub(s, at, at + st.patch_at - 1) .. change .. sub(s, at + st.patch_at + #change, at + size - 1)
end

-- ends returns the last ms at which any state matters.
function record.ends()
  local ending = 0
  for i = 1, rec.count do ending = max(ending, lib.algorithms[rec[i].kind].matters_until(rec[i])) end
  return ending
end

-- expire lets a key live until a ms; with gt = 'GT', only if that is later than before.
function record.expire(key, ms, gt)
  if gt then call('PEXPIREAT', key, text_of(ms), gt) else call('PEXPIREAT', key, text_of(ms)) end
end

-- store writes the record s over the stored one, whose bytes are old, to live until the ms expires. moves says whether expires
-- differs from before. alone says whether expires is right for the whole record; otherwise another state may matter for longer,
-- and the time to live is only ever extended. s is usually at least as long as old, and then SETRANGE is used: it costs half as
-- much as SET.
function record.store(key, old, s, expires, moves, alone)
  if alone and (old == '' or #s < #old) then
    call('SET', key, s, 'PXAT', text_of(expires))
    return
  end
  if #s < #old then call('SET', key, s, 'KEEPTTL') else call('SETRANGE', key, '0', s) end
  if moves then record.expire(key, expires, not alone and 'GT') end
end

local pieces = {} -- of the record being composed: names, fields, areas

-- directory_now returns the directory of the record in memory, which is a new one if limits or states have changed.
local function directory_now()
  local d, changed = rec.directory, rec.rewrite
  for i = 1, rec.count do changed = changed or rec[i].limit ~= d.limits[i] end
  if not changed then return d end
  for i = 1, rec.count do
    local st = rec[i]
    pieces[i] = pack('>BI2I5I5', st.kind, st.buckets, st.window, st.limit)
  end
  return record.new(concat(pieces, '', 1, rec.count), rec.count)
end

-- fields packs the fields of all states.
local function fields()
  for i = 1, rec.count do pieces[i + 1] = layout.fields_of(rec[i].kind, rec[i].buckets).write(rec[i]) end
end

-- compose returns the bytes of the record in memory. If the record is rewritten, compose drops states that no longer matter. If
-- it is too long to be inline, compose gives its logs room to grow by an eighth.
local function compose()
  local count = 0
  for i = 1, rec.count do
    local st = rec[i]
    if not rec.rewrite or matters(st) then
      count = count + 1
      rec[count] = st
    else
      record.clean(st)
    end
  end
  rec.count = count
  local d = directory_now()
  pieces[1] = d.text
  local bytes = d.head
  for i = 1, count do
    local st = rec[i]
    local s = st.kind == SLIDE and lib.slide.straighten(st) or record.area(st)
    pieces[count + 1 + i], bytes = s, bytes + #s
  end
  for i = 1, bytes >= d.inline and count or 0 do
    local st = rec[i]
    if st.kind == SLIDE then
      local room = math.floor(st.count / 8) + 8
      st.slots = st.count + room
      pieces[count + 1 + i] = pieces[count + 1 + i] .. string.rep('\0', room * ENTRY)
    end
  end
  fields()
  return concat(pieces, '', 1, 2 * count + 1)
end

-- patch writes the changes of a patched record: its directory and fields, and of each area the bytes that have changed.
local function patch()
  local count = rec.count
  pieces[1] = directory_now().text
  fields()
  if call('SETRANGE', rec.key, '0', concat(pieces, '', 1, count + 1)) < rec.bytes then -- it returns the record's length
    record.damaged(rec.key, 'it ends within its areas')
  end
  for i = 1, count do
    local st = rec[i]
    if st.patch then call('SETRANGE', rec.key, format('%d', st.begin - 1 + st.patch_at), st.patch) end
  end
end

-- outdated reports whether a state is to be dropped. The fast path leaves such records to the slow path, so that both store the
-- same.
local function outdated()
  local keep = rec.directory.keep
  for i = 1, rec.count do
    if rec[i].last + keep[i] < rec.clock then return true end
  end
  return false
end

-- save writes the record in memory, to live until its last state no longer matters. was is the ms until which it lived before.
function record.save(was)
  local expires = record.ends()
  rec.rewrite = rec.rewrite or outdated()
  if expires < rec.clock then -- all held units were given back, and nothing is charged
    call('UNLINK', rec.key)
  elseif rec.inline or rec.rewrite then
    local s = compose()
    record.store(rec.key, rec.rewrite and '' or rec.text, s, expires, expires ~= was, true)
  else
    patch()
    if expires ~= was then record.expire(rec.key, expires) end
  end
end
end)(lib)
;(function(...)
-- rate.lua: how often a state is charged, for RL.INSPECT and for splitting by load. A rate is stored as one number: how many
-- calls charged in this second, which is that of the newest charge, plus 65536 times the number for the previous second.
local lib = ...

local rate = {}
lib.rate = rate

-- charged returns a rate after one more call at now, and what at returns for it at the clock. last is the ms of the call before.
function rate.charged(now, last, calls, clock)
  local elapsed, this = now % 1000, calls % 65536
  local passed = now - elapsed - last + last % 1000
  if passed == 0 then
    if this < 65535 then calls, this = calls + 1, this + 1 end
  else
    calls, this = passed == 1000 and this * 65536 + 1 or 1, 1
  end
  if clock ~= now then return calls, rate.at(clock, now, calls) end
  if calls == this then return calls, this end
  local weighed = (calls - this) / 65536 * (1000 - elapsed)
  return calls, (weighed - weighed % 1000) / 1000 + this
end

-- at returns about how many calls charged in the 1000 ms that end at now.
function rate.at(now, last, calls)
  local elapsed, this = now - last + last % 1000, calls % 65536
  if elapsed < 1000 then
    local weighed = (calls - this) / 65536 * (elapsed < 0 and 1000 or 1000 - elapsed)
    return (weighed - weighed % 1000) / 1000 + this
  end
  if elapsed >= 2000 then return 0 end
  local weighed = this * (2000 - elapsed)
  return (weighed - weighed % 1000) / 1000
end
end)(lib)
;(function(...)
-- counter.lua: RL.COUNTER, the sliding-window counter.
--
-- A window of w ms is divided into n sub-windows; sub-window k has the ms t for which floor(t * n / w) = k. n + 1 counters are
-- kept. All but the oldest count in full. The oldest, k - n, is weighted by the part of it that the window still covers, or
-- counts in full if strict. With n = 1 this is the classic pair of the current and the previous window.
local lib = ...

local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local max, min, floor, ceil, zeros = math.max, math.min, math.floor, math.ceil, string.rep
local record, rate_at, charged = lib.record, lib.rate.at, lib.rate.charged
local BYTES, FIELDS = lib.layout.COUNTER_BYTES, lib.layout.FIELDS[lib.layout.COUNTER].bytes
local counter = {}
lib.counter = counter

-- held returns the counter of sub-window k. Those after it, up to sub-window last, are read along with it.
local function held(st, k, last)
  local slots = st.buckets + 1
  local slot = k % slots
  local s, at = record.bytes(st, slot * BYTES, BYTES, min(last - k + 1, slots - slot) * BYTES)
  return (unpack('>I5', s, at))
end

-- usage also keeps in st: k, the sub-window of now; e, the time since it began, in n-ths of a ms; was, the sub-window of the
-- newest charge; and the units of the oldest sub-window (oldest), of all others (rest), and of k (current).
function counter.usage(st, rec, strict)
  local n, window, now = st.buckets, st.window, rec.now
  local e = now * n
  local k = floor(e / window)
  local was, rest = floor(st.last * n / window), st.used
  if k - was > n then
    rest = 0
  else
    for j = was - n, k - n - 1 do rest = rest - held(st, j, k - n) end
  end
  local oldest = k - n <= was and held(st, k - n, k - n) or 0
  local newest = was >= k - n and held(st, was, was) or 0
  rest = rest - oldest
  if rest < 0 then record.damaged(rec.key, 'counters that do not add up') end
  st.k, st.e, st.was, st.oldest, st.rest, st.current = k, e % window, was, oldest, rest, was == k and newest or 0
  st.reported_last, st.reported_newest = st.last, newest
  if oldest == 0 or strict then return oldest + rest end
  return floor(oldest * (window - e % window) / window) + rest
end

-- lighter returns the least e, not below the given one, at which the weighted oldest sub-window counts at most `left` units;
-- window if there is none. e is the time since the newest sub-window began, in n-ths of a ms. The division gives e to within
-- one, because of rounding; the comparisons after it correct that.
local function lighter(window, oldest, left, e)
  if oldest <= left then return e end
  e = max(e, floor(window - (left + 1) * window / oldest) + 1)
  if e > 0 and floor(oldest * (window - e + 1) / window) <= left then e = e - 1 end
  if e < window and floor(oldest * (window - e) / window) > left then e = e + 1 end
  return e
end

-- room_at goes through the sub-windows to come; after n + 1 of them nothing counts.
function counter.room_at(st, rec, _, most, strict)
  local n, window, k, e, oldest, rest = st.buckets, st.window, st.k, st.e, st.oldest, st.rest
  for _ = 0, n + 1 do
    local left = most - rest
    if left >= 0 then
      if oldest <= left then return ceil((k * window + e) / n) end
      if not strict then
        e = lighter(window, oldest, left, e)
        if e < window then return ceil((k * window + e) / n) end
      end
    end
    k, e = k + 1, 0
    if k - n == st.k then oldest = st.current elseif k - n > st.was then oldest = 0 else oldest = held(st, k - n, st.was) end
    rest = rest - oldest
  end
  record.damaged(rec.key, 'counters that do not add up')
end

-- cleared returns an area in which the counters of the sub-windows from..to, which may be all of them, are 0.
local function cleared(s, n, from, to)
  if to - from >= n then return zeros('\0', (n + 1) * BYTES) end
  while from <= to do -- at most twice: the ring wraps around once
    local slot = from % (n + 1)
    local run = min(to - from, n - slot) + 1
    s = sub(s, 1, slot * BYTES) .. zeros('\0', run * BYTES) .. sub(s, (slot + run) * BYTES + 1)
    from = from + run
  end
  return s
end

function counter.charge(st, rec, _, more)
  local n, k = st.buckets, st.k
  local offset = k % (n + 1) * BYTES
  st.reported_last, st.reported_newest = rec.now, st.current
  st.current, st.rest = st.current + more, st.rest + more
  st.used = st.oldest + st.rest
  local packed = pack('>I5', st.current)
  if k == st.was and not st.area then
    st.patch, st.patch_at = packed, offset
  else
    local s = cleared(st.area or record.area(st), n, st.was + 1, k)
    st.area = sub(s, 1, offset) .. packed .. sub(s, offset + BYTES + 1)
    if n > 1 then st.patch, st.patch_at = st.area, 0 end
  end
end

function counter.matters_until(st)
  local n, window = st.buckets, st.window
  return ceil((floor(st.last * n / window) + n + 1) * window / n) - 1
end

-- What straight passes to room_at.
local pair = { buckets = 1, window = 0, k = 0, e = 0, was = 0, oldest = 0, rest = 0, current = 0 }

-- straight has the arguments and results of slide.straight. With several sub-windows, it leaves denials to the operations.
function counter.straight(q, i, s, at, begin, clock, now, requests, bound, head)
  local n, window, limit, needs, strict = q.buckets, q.windows[i], q.limits[i], q.needs, q.strict
  local stop, last, calls, rest, oldest, current, newest = begin, 0, 0, 0, 0, 0, 0
  if s ~= '' then
    if n == 1 then
      last, calls, oldest, newest = unpack('>I6I4I5I5', s, at)
    else
      stop = begin + (n + 1) * BYTES
      if stop > #s + 1 then return end
      last, calls, rest = unpack('>I6I4I6', s, at)
    end
    if last > now then
      if q.only_by_clock or last > clock + lib.layout.YEAR then return end
      now = last
    end
  end
  local e, was = now * n, last * n
  local rest_of_window = e % window
  local k = (e - rest_of_window) / window
  was, e = (was - was % window) / window, rest_of_window
  local moves = k ~= was
  if k - was > n then
    rest, oldest, newest = 0, 0, 0
  elseif n == 1 then
    if was % 2 == 0 then oldest, newest = newest, oldest end
    if moves then oldest = newest else rest, current = newest, newest end
  else
    for j = was - n, k - n - 1 do rest = rest - unpack('>I5', s, begin + j % (n + 1) * BYTES) end
    oldest = unpack('>I5', s, begin + (k - n) % (n + 1) * BYTES)
    newest = was == k - n and oldest or unpack('>I5', s, begin + was % (n + 1) * BYTES)
    if not moves then current = newest end
    rest = rest - oldest
    if rest < 0 then return end
  end
  local used = rest
  if oldest > 0 then used = used + (strict and oldest or floor(oldest * (window - e) / window)) end
  local granted = (bound or limit) - used
  if granted >= requests * needs then
    granted = requests
  elseif bound or n > 1 then
    return
  else
    granted = granted > 0 and (granted - granted % needs) / needs or 0
  end
  local units, rated, fields, area = granted * q.cost
  if units > 0 then
    calls, rated = charged(now, last, calls, clock)
    newest, current, last = current, current + units, now
    if n > 1 then
      local slot = k % (n + 1) * BYTES
      if s == '' then
        area = zeros('\0', (n + 1) * BYTES)
      else
        area = sub(s, begin, begin + n * BYTES + BYTES - 1)
        if moves then area = cleared(area, n, was + 1, k) end
      end
      area = sub(area, 1, slot) .. pack('>I5', current) .. sub(area, slot + BYTES + 1)
      fields = pack('>I6I4I6', now, calls, oldest + rest + units)
      if head then fields = head .. fields .. sub(s, at + FIELDS, begin - 1) .. area .. sub(s, stop) end
    else
      local even, odd = oldest, current
      if k % 2 == 0 then even, odd = current, oldest end
      fields = pack('>c0I6I4I5I5', head or '', now, calls, even, odd)
    end
  end
  local room = 0
  if granted == requests or limit >= used + units + needs then
    if q.cost == 0 and granted > 0 then granted = requests end
  else -- find when there is room for one more
    pair.window, pair.k, pair.e, pair.was, pair.oldest, pair.rest, pair.current = window, k, e, k, oldest, current, current
    room = counter.room_at(pair, nil, 0, limit - needs, strict)
  end
  local ends = n == 1 and (k + 2) * window or ceil((k + n + 1) * window / n)
  return granted, rated or rate_at(clock, last, calls), used, room, last, newest, fields, ends - 1, moves, area, stop
end
end)(lib)
;(function(...)
-- fixed.lua: RL.FIXED, one count per window. Windows start at multiples of their length since the epoch.
local lib = ...

local unpack, pack = struct.unpack, struct.pack
local rate_at, charged = lib.rate.at, lib.rate.charged
local YEAR, UNITS = lib.layout.YEAR, lib.layout.UNITS
local fixed = {}
lib.fixed = fixed

function fixed.usage(st, rec)
  local now, window = rec.now, st.window
  st.reported_last, st.reported_newest = st.last, 0
  if now - now % window > st.last then return 0 end
  return st.used
end

function fixed.room_at(st, rec) return rec.now - rec.now % st.window + st.window end

function fixed.charge(st, rec, _, units)
  st.used = fixed.usage(st, rec) + units
  st.reported_last = rec.now
end

function fixed.matters_until(st) return st.last - st.last % st.window + st.window - 1 end

-- straight has the arguments and results of slide.straight.
function fixed.straight(q, i, s, at, begin, clock, now, requests, bound, head)
  local window, limit, needs = q.windows[i], q.limits[i], q.needs
  local last, calls, used = 0, 0, 0
  if s ~= '' then
    last, calls, used = unpack('>I6I4I6', s, at)
    if last > now then
      if q.only_by_clock or last > clock + YEAR then return end
      now = last
    end
  end
  local from = now - now % window
  local moves = from > last
  if moves then used = 0 end
  local granted = (bound or limit) - used
  if granted >= requests * needs then
    granted = requests
  elseif bound or used > UNITS then
    return
  else
    granted = granted > 0 and (granted - granted % needs) / needs or 0
  end
  local units, room, rated, fields = granted * q.cost, 0
  if units > 0 then
    calls, rated = charged(now, last, calls, clock)
    last, fields = now, pack('>c0I6I4I6', head or '', now, calls, used + units)
  end
  if granted < requests and limit < used + units + needs then
    room = from + window
  elseif q.cost == 0 and granted > 0 then
    granted = requests
  end
  return granted, rated or rate_at(clock, last, calls), used, room, last, 0, fields, from + window - 1, moves, nil, begin
end
end)(lib)
;(function(...)
-- gcra.lua: CL.THROTTLE, the generic cell rate algorithm as redis-cell has it.
--
-- A state is one time: when all charged units will have drained. Units drain at a constant rate, one per interval. A request
-- is admitted if the units in use, with its own, are at most the limit. Durations are in ns, exact in doubles up to 104 days.
local lib = ...

local max, min, floor, ceil = math.max, math.min, math.floor, math.ceil
local unpack, pack = struct.unpack, struct.pack
local rate_at, charged = lib.rate.at, lib.rate.charged
local NS, MOST = 1000000, 2 ^ 48 - 1 -- ns per ms; the largest usage that fits into a reply
local YEAR, DRAIN = lib.layout.YEAR, lib.layout.DRAIN
local gcra = {}
lib.gcra = gcra

-- usage also sets left, the ns until all has drained. A part of a unit counts as one. A request is decided by its own interval
-- and the clock; the stored interval and rec.now are used only for RL.INSPECT, which has no spec.
function gcra.usage(st, rec, _, spec)
  if st.drained > rec.clock + DRAIN then lib.record.damaged(rec.key, 'a rate that never drains') end
  local left = max((st.drained - (spec and rec.clock or rec.now)) * NS + st.beyond, 0)
  st.left, st.reported_last, st.reported_newest = left, st.drained, st.beyond
  if spec then st.interval = spec.interval end
  return min(ceil(left / max(st.interval, 1)), MOST)
end

function gcra.room_at(st, rec, _, most) return rec.clock + ceil((st.left - most * st.interval) / NS) end

function gcra.charge(st, rec, _, units)
  local left = st.left + units * st.interval
  st.left, st.drained, st.beyond = left, rec.clock + floor(left / NS), left % NS
end

function gcra.matters_until(st) return st.beyond > 0 and st.drained or st.drained - 1 end

-- straight has the arguments and results of slide.straight.
function gcra.straight(q, _, s, at, begin, clock, now, requests, _, head)
  local limit, needs, interval = q.limits[1], q.needs, q.interval
  local last, calls, drained, beyond = 0, 0, 0, 0
  if s ~= '' then
    last, calls, drained, beyond = unpack('>I6I4I6I3', s, at)
    if last > now then now = last end
    if now > clock + YEAR or drained > clock + DRAIN then return end
  end
  local left, used, ms, ns = (drained - clock) * NS + beyond, 0, drained, beyond
  if left > 0 then used = ceil(left / interval) else left = 0 end
  if used > MOST then used = MOST end
  local granted = requests
  if limit - used < requests * needs then granted = max(floor((limit - used) / needs), 0) end
  local units, room, rated, fields = granted * q.cost, 0
  if units > 0 then
    calls, rated = charged(now, last, calls, clock)
    left, last = left + units * interval, now
    beyond = left % NS
    drained = clock + (left - beyond) / NS
    fields = pack('>c0I6I4I6I3I8', head or '', now, calls, drained, beyond, interval)
  end
  if granted < requests and limit < used + units + needs then
    room = clock + ceil((left - (limit - needs) * interval) / NS)
  elseif q.cost == 0 and granted > 0 then
    granted = requests
  end
  local ends = beyond > 0 and drained or drained - 1
  return granted, rated or rate_at(clock, last, calls), used, room, ms, ns, fields, ends, true, nil, begin
end
end)(lib)
;(function(...)
-- slide.lua: RL.SLIDE, the exact sliding-window log.
--
-- A state's area is a ring of entries, one for each ms in which something was admitted: the ms, and the running total
-- after it. An entry counts while now <= its ms + window. So the units in use are the difference of two running totals, and a
-- decision needs one search for the oldest entry that counts, whatever the cost of the request and the length of the log.
local lib = ...

local call, unpack, pack, sub, format = redis.call, struct.unpack, struct.pack, string.sub, string.format
local min, floor, ceil = math.min, math.floor, math.ceil
local bytes, rate_at, charged = lib.record.bytes, lib.rate.at, lib.rate.charged
local ENTRY, FIELDS = lib.layout.ENTRY_BYTES, lib.layout.FIELDS[lib.layout.SLIDE].bytes
local WRAP, SHIFT = lib.layout.WRAP, lib.layout.SHIFT
local YEAR, UNITS, DELAY, SLOTS, GRID =
  lib.layout.YEAR, lib.layout.UNITS, lib.layout.DELAY, lib.layout.SLOTS, lib.layout.GRID
local record = lib.record
local AHEAD = 32 * ENTRY -- bytes read at a time from the ring of a patched record
local FRONT = 16 -- oldest entries that the fast path of a patched record looks at
local slide = {}
lib.slide = slide

-- dated returns the ms that is stored for units admitted at now. With limits above 65,536 it is rounded up to a grid, so
-- that a log has at most some 65,537 entries.
function slide.dated(now, limit, window)
  return limit > 65536 and now + -now % ceil(window / 65536) or now
end

-- entry returns the ms and the running total of the i-th entry, from 0. Those of the newest entry are read from the fields,
-- because after a charge it may not be in the ring yet.
local function entry(st, i)
  if i >= st.count - 1 then return st.newest, st.total end
  local slot = (st.first + i) % st.slots
  local s, at = bytes(st, slot * ENTRY, ENTRY, AHEAD)
  return unpack('>I6I6', s, at)
end

-- seek returns the first entry from low to high for which late(ms, total) holds, as it does for high. It is likely to be near
-- low, so the first steps are short.
local function seek(st, low, high, late)
  local step = 1
  while low < high do
    local mid = min(low + step - 1, floor((low + high) / 2))
    if late(entry(st, mid)) then high = mid else low, step = mid + 1, 2 * step end
  end
  return low
end

-- The parameters of the searches: counts uses oldest, enough uses the others.
local oldest, before, wanted
local function counts(ms) return ms >= oldest end
local function enough(_, total) return (total - before) % WRAP >= wanted end

-- usage returns the units in use. It sets gone, the number of entries that no longer count, and live, the running total
-- before the first entry that counts.
function slide.usage(st, rec)
  local gone, live, _ = st.count, st.base
  oldest = rec.now - st.window
  if st.newest >= oldest then gone = seek(st, 0, gone - 1, counts) end
  if gone > 0 then _, live = entry(st, gone - 1) end
  st.gone, st.live, st.reported_last, st.reported_newest = gone, live, st.newest, 0
  return (st.total - live) % WRAP
end

-- room_at returns the ms at which `over` units have left the window. Each entry has at least one unit.
function slide.room_at(st, _, over)
  before, wanted = st.live, over
  local ms = entry(st, seek(st, st.gone, min(st.gone + over, st.count) - 1, enough))
  return ms + st.window + 1
end

-- charge admits units: the log becomes the entries that count, followed by a new newest entry, the patch. If the newest entry
-- so far has the same ms or a later one, the new entry replaces it and keeps its ms.
function slide.charge(st, rec, limit, units)
  local ms, kept = slide.dated(rec.now, limit, st.window), st.count - st.gone
  if kept > 0 and st.newest >= ms then ms, kept = st.newest, kept - 1 end
  st.first = st.slots > 0 and (st.first + st.gone) % st.slots or 0
  st.count, st.base, st.total, st.newest, st.gone = kept + 1, st.live, (st.total + units) % WRAP, ms, 0
  st.reported_last = ms
  st.patch = pack('>I6I6', ms, st.total)
  if rec.inline then return end
  if st.count >= st.slots or st.slots > 256 and st.count * 4 < st.slots then
    rec.rewrite = true -- to grow, or to shrink. It grows before it is full: earlier versions read a full ring from slot 0
  else
    st.patch_at = (st.first + kept) % st.slots * ENTRY
  end
end

-- straighten returns the ring's entries in order, and makes the ring begin at slot 0, without spare slots.
function slide.straighten(st)
  local s, kept = '', st.patch and st.count - 1 or st.count
  if kept > 0 then
    local size, from, to = st.slots * ENTRY, st.first * ENTRY, (st.first + kept) * ENTRY
    local text, at = bytes(st, 0, size, size)
    s = sub(text, at + from, at + min(to, size) - 1)
    if to > size then s = s .. sub(text, at, at + to - size - 1) end
  end
  st.first, st.slots = 0, st.count
  return st.patch and s .. st.patch or s
end

-- append charges units at several moments, which are in order: moments[i] is the ms of units[i]. usage must come first.
function slide.append(st, limit, moments, units)
  st.first = st.slots > 0 and (st.first + st.gone) % st.slots or 0
  st.count, st.base, st.gone = st.count - st.gone, st.live, 0
  local log = { slide.straighten(st) }
  for i, moment in ipairs(moments) do
    local ms = slide.dated(moment, limit, st.window)
    if st.count > 0 and st.newest >= ms then
      ms, log[#log] = st.newest, sub(log[#log], 1, -ENTRY - 1)
    else
      st.count = st.count + 1
    end
    st.total, st.newest = (st.total + units[i]) % WRAP, ms
    log[#log + 1] = pack('>I6I6', ms, st.total)
  end
  st.area, st.slots = table.concat(log), st.count
end

function slide.matters_until(st) return st.newest + st.window end

-- first_of returns the first of the entries low to high at which a number of 6 bytes, less base, is at least `least`, and high if
-- none before it is. In s, the number of entry 0 is at index `at`.
local function first_of(s, at, low, high, base, least)
  while low < high do
    local mid = (low + high - (low + high) % 2) / 2
    if (unpack('>I6', s, at + mid * ENTRY) - base) % WRAP < least then low = mid + 1 else high = mid end
  end
  return low
end

-- straight decides the i-th window of a spec, for a number of requests. s is a record with the fields of its state at
-- index `at` and its area at index begin, or s is empty. now is the latest ms in the record's other states, or the clock if
-- that is later. At the home or a shard of a split key, bound takes the place of the limit. If head is given, straight returns
-- the whole record, which begins with head. held is the units that are held until after the newest entry has left the window.
-- If the record is patched, key is given, and s is its first bytes. Then straight reads some of the oldest entries, and writes
-- the fields and the newest entry.
--
-- It returns the number of requests granted, the rate, the units used before, the ms at which there is room for another
-- request, and last and newest of the reply. If it charges units, it also returns the packed fields, or the whole record; the
-- last ms at which the state matters, and whether that has changed; the area, unless it returns the whole record; and the
-- index after the area that it read. It returns nothing, and has written nothing, if the slow path has to decide: for a record
-- that no operation writes, if not all requests fit within bound, if there is no room before held units end, and if more of a
-- patched record has to be read or written.
function slide.straight(q, i, s, at, begin, clock, now, requests, bound, head, held, key)
  local window, limit, needs = q.windows[i], q.limits[i], q.needs
  local front, from, gone, last, calls, n, base, total, newest = s, begin, 0
  local ahead, slots, first, oldest_ms -- front has the first `ahead` entries at index from
  if key then
    last, calls, n, first, base, total, newest = unpack('>I6I4I6I3I6I6I6', s, at)
    slots = n % SHIFT
    n = (n - slots) / SHIFT
    if n < 1 or n > slots or first >= slots or slots > SLOTS then return end
    from, ahead = begin + first * ENTRY, slots - first
    if ahead > FRONT then ahead = FRONT end
    if ahead > n then ahead = n end
    if from + ahead * ENTRY > #s + 1 then
      front, from = call('GETRANGE', key, format('%d', from - 1), format('%d', from + ahead * ENTRY - 2)), 1
      if #front < ahead * ENTRY then return end
    end
  elseif s ~= '' then
    last, calls, n, base, total, newest = unpack('>I6I4I6I9I6I6', s, at) -- base is WRAP or more unless the ring begins at slot 0
    ahead = n % SHIFT
    if n ~= ahead * SHIFT + ahead or n == 0 or base >= WRAP or begin + ahead * ENTRY > #s + 1 then return end
    n = ahead
  else
    last, calls, n, base, total, newest = 0, 0, 0, 0, 0, 0
  end
  if n > 0 then
    if last > now then
      if q.only_by_clock or last > clock + YEAR then return end
      now = last
    end
    if newest > last + GRID then return end
    local low = now - window -- the first ms that counts
    oldest_ms = unpack('>I6', front, from)
    if newest < low then
      gone, base = n, total
    elseif oldest_ms < low then
      gone = first_of(front, from, 1, min(ahead, n - 1), 0, low)
      if gone == ahead then return end
      base = unpack('>I6', front, from + gone * ENTRY - 6)
    end
  end
  local used, most = (total - base) % WRAP, limit - (held or 0)
  local granted = (bound or most) - used
  if granted >= requests * needs then
    granted = requests
  elseif bound or used > UNITS then
    return
  else
    granted = granted > 0 and (granted - granted % needs) / needs or 0
  end
  local units, room = granted * q.cost, 0
  if granted < requests then
    local over = used + units + needs - most -- units that have to leave the window before there is room for one more request
    if over > used then return end
    if over > 0 then
      local high = gone + over - 1 -- each entry has at least one unit
      if high >= ahead then high = ahead == n and n - 1 or ahead end
      local leaves = high > gone and first_of(front, from + 6, gone, high, base, over) or gone
      if leaves == ahead then return end
      room = (leaves > 0 and unpack('>I6', front, from + leaves * ENTRY) or oldest_ms) + window + 1
      if room <= clock or room > clock + DELAY then return end
      if granted == 0 then return 0, rate_at(clock, last, calls), used, room, newest, 0 end
    else -- the requests have no cost
      granted = requests
    end
  end
  local stop, rated, fields, area, moves = begin + n * ENTRY
  if units > 0 then
    local ms, kept = now, n - gone -- of the entry that gets the units; how many entries stay as they are
    if limit > 65536 then ms = ms + -ms % ceil(window / 65536) end
    moves = newest ~= ms
    if kept > 0 and newest >= ms then ms, moves, kept = newest, false, kept - 1 end
    n, total, newest = kept + 1, (total + units) % WRAP, ms
    calls, rated = charged(now, last, calls, clock)
    if key then
      if n >= slots or slots > 256 and n * 4 < slots then return end
      first = (first + gone) % slots
      fields = pack('>I6I4I6I3I6I6I6', now, calls, n * SHIFT + slots, first, base, total, ms)
      if call('SETRANGE', key, format('%d', at - 1), fields) < begin - 1 + slots * ENTRY then -- it returns the record's length
        record.damaged(key, 'it ends within its areas')
      end
      call('SETRANGE', key, format('%d', begin - 1 + (first + kept) % slots * ENTRY), pack('>I6I6', ms, total))
    else
      local live = sub(s, begin + gone * ENTRY, begin + (gone + kept) * ENTRY - 1)
      if head and begin == at + FIELDS and stop > #s then
        fields = pack('>c0I6I4I6I9I6I6c0I6I6', head, now, calls, n * SHIFT + n, base, total, ms, live, ms, total)
      elseif head then
        fields = pack('>c0I6I4I6I9I6I6c0c0I6I6', head, now, calls, n * SHIFT + n, base, total, ms, sub(s, at + FIELDS, begin - 1),
          live, ms, total) .. sub(s, stop)
      else
        fields, area = pack('>I6I4I6I9I6I6', now, calls, n * SHIFT + n, base, total, ms), live .. pack('>I6I6', ms, total)
      end
    end
  end
  return granted, rated or rate_at(clock, last, calls), used, room, newest, 0, fields, newest + window, moves, area, stop
end
end)(lib)
;(function(...)
-- spec.lua: what a request asks for, as it is sent over the wire.
--
--   spec   cost 6 bytes, flags 1 (1: strict, 2: at a shard, 4: a rate), kind 1, buckets 2, then per window its length 5 and
--          limit 5; for a rate, instead of windows, the ns between units 8 and the limit 8, the units that are admitted at once
local lib = ...

local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local layout, record = lib.layout, lib.record
local RESET = layout.RESET
local NONE = { text = '', bytes = -1, names = {} } -- stands for a directory that no record has
local spec = {}
lib.spec = spec

-- of returns a table with what a spec's text says. Its fields:
--   cost, needs     the units that a request takes, and the units that must be free for it: the cost, at least 1 (of a rate, the
--                   cost)
--   strict, shard   its flags
--   kind, buckets, algorithm
--   count, windows, limits, names
--                   the number of windows, and by window its ms, its limit, and the 8 bytes that name its state
--   pairs           per window, the 13 bytes of its name and limit, in one string
--   interval        of a rate; otherwise 0
--   about           the text from the flags to the end: what a lease summary is about
--   last            the index of the last byte of a record to read, as text: if states of the kind have areas, the last one of
--                   an inline record with that directory
--   straight        the algorithm's straight function
--   longest         the ms of the longest window
--   fresh, order    the directory of a record that has only these states, and their places in it: 1, 2 and so on
--   directory, places
--                   the same for the record that was read last; places is false if it lacks one of the states
--   areas           whether states of the kind have areas
--   only_by_clock   whether the fast path must not decide when the key's newest charge is later than the clock
--   forms           see fast_holds.lua
--   prefixed        the length of the text 1 byte, and the text
spec.of = record.cache(1000, function(text)
  local cost, flags, kind, buckets = unpack('>I6BBI2', text)
  local q = { text = text, cost = cost, needs = cost > 0 and cost or 1, strict = flags % 2 == 1, shard = flags % 4 >= 2,
    kind = kind, buckets = buckets, algorithm = lib.algorithms[kind], count = 0, windows = {}, limits = {}, names = {},
    pairs = '', about = sub(text, 7), straight = false, fresh = NONE, directory = NONE, order = false, places = false,
    last = tostring(layout.INLINE - 1), interval = 0, only_by_clock = false, areas = false, longest = 0, forms = false,
    prefixed = pack('>B', #text) .. text }
  if kind == RESET or #text == 10 then return q end
  if not q.algorithm or not q.algorithm.charge then
    error({ err = 'ERR a spec of unknown kind ' .. kind })
  end
  local rate = flags % 8 >= 4
  if rate then
    q.interval, q.limits[1] = unpack('>I8I8', text, 11)
    q.needs = cost -- may be 0: then it is denied only while more than the limit is in use
    q.count, q.buckets, q.windows[1] = 1, 1, 0 -- a key has one such state, whatever the rate
    q.pairs = pack('>BI2I5I5', kind, 1, 0, math.min(q.limits[1], 1e12))
  end
  for at = 11, rate and 0 or #text, 10 do
    local i = q.count + 1
    q.count, q.windows[i], q.limits[i] = i, unpack('>I5I5', text, at)
    q.longest = math.max(q.longest, q.windows[i])
    q.names[i] = sub(text, 8, 10) .. sub(text, at, at + 4)
    q.pairs = q.pairs .. q.names[i] .. sub(text, at + 5, at + 9)
  end
  if kind == layout.CONCURRENCY then return q end
  q.fresh = record.new(q.pairs, q.count)
  q.directory, q.last, q.straight = q.fresh, q.fresh.last, q.algorithm.straight
  q.order, q.only_by_clock = {}, q.count > 1 or q.shard
  q.areas = kind == layout.SLIDE or q.buckets > 1
  for i = 1, q.count do q.order[i] = i end
  q.places = q.order
  return q
end)

-- place finds the states of a spec, with the spec's limits, in the record that begins with s, and stores their places in the
-- spec. It returns the record's directory and the places, which are false if one is missing.
function spec.place(q, key, s)
  local d, places, names, found = record.directory(key, s), {}, q.fresh.names, 0
  for i = 1, q.count do
    for j = 1, d.count do
      if d.names[j] == names[i] then places[i], found = j, found + 1 end
    end
  end
  if d.text == q.fresh.text then d, places = q.fresh, q.order end -- the cache may have made another table for the text
  q.directory, q.places = d, q.order and found == q.count and places
  if q.areas then q.last = d.last end
  return d, q.places
end
end)(lib)
;(function(...)
-- holds.lua: held units of a key, which count now but have not been charged: those of RL.RESERVE, RL.ACQUIRE and multi-key
-- requests. Units that are not settled before their deadline lapse: they are charged as of that ms (RL.SLIDE only), or
-- forgotten.
--
-- The held units of a window are a state of their own, whose kind is HOLDS plus the window's kind. Its area is a list of cells
-- in the order of their deadlines. A hold adds to the cell of its deadline. Deadlines are rounded up, which bounds the number
-- of cells, so the cost of a decision does not grow with the number of holds. The area may be padded.
local lib = ...

local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local max, min, floor, zeros = math.max, math.min, math.floor, string.rep
local layout, record, rate, slide = lib.layout, lib.record, lib.rate, lib.slide
local HOLDS, SLIDE, CONCURRENCY, CELL = layout.HOLDS, layout.SLIDE, layout.CONCURRENCY, layout.CELL_BYTES
local SPARE = 16 -- spare cells in the area of a patched record
local MOST_LEASES = 65536 -- of RL.ACQUIRE on one key
local holds = { MOST = 16384 } -- the most holds of a window, except of RL.ACQUIRE
lib.holds = holds

-- CONCURRENCY as an algorithm: nothing is charged.
holds.nothing = {
  usage = function(st) st.reported_last, st.reported_newest = 0, 0 return 0 end,
  charge = function() error({ err = 'ERR a lease is held and not charged' }) end,
  matters_until = function() return 0 end,
}

-- deadline returns the ms at which units held at now for ttl ms lapse: now + ttl, rounded up by at most ttl/64.
function holds.deadline(now, ttl)
  local _, digits = math.frexp(max(ttl, 64)) -- binary digits of ttl
  return now + ttl + -(now + ttl) % 2 ^ (digits - 7)
end

local function cells(st) return sub(record.area(st), 1, st.cells * CELL) end

-- keep sets the cells of a state.
local function keep(st, rec, s)
  local count = #s / CELL
  if rec.inline then
    st.slots = count
  elseif count > st.slots then
    st.slots, rec.rewrite = count + SPARE, true
  end
  if count == 0 and rec.inline then rec.rewrite = true end -- drops the state; in a patched record it stays until the next rewrite
  st.area, st.cells = s .. zeros('\0', (st.slots - count) * CELL), count
  st.next = count > 0 and unpack('>I6', s) or 0
  st.patch, st.patch_at = st.area, 0
end

-- latest returns the latest deadlines of units to charge and of units to release, 0 if there are none.
local function latest(st)
  local s, last_charge, last_release, i = cells(st), 0, 0, st.cells
  while i > 0 and (last_charge == 0 and st.charge > 0 or last_release == 0 and st.release > 0) do
    i = i - 1
    local deadline, charge, release = unpack('>I6I6I6', s, i * CELL + 1)
    if charge > 0 then last_charge = max(last_charge, deadline) end
    if release > 0 then last_release = max(last_release, deadline) end
  end
  return last_charge, last_release
end

-- seek searches `count` cells that begin at an index of s. It returns the index of the first cell whose deadline is not before
-- the given one, and the units to charge, the units to release and the holds of the cell with that deadline, 0 if there is none.
function holds.seek(s, begin, count, deadline)
  local low, high = 0, count
  while low < high do
    local mid = (low + high - (low + high) % 2) / 2
    if unpack('>I6', s, begin + mid * CELL) < deadline then low = mid + 1 else high = mid end
  end
  local index = begin + low * CELL
  if low < count then
    local at, charge, release, n = unpack('>I6I6I6I3', s, index)
    if at == deadline then return index, charge, release, n end
  end
  return index, 0, 0, 0
end
local seek = holds.seek

-- change adds units and holds to the cell of a deadline; negative numbers remove them.
local function change(st, rec, deadline, charge, release, n)
  local s = cells(st)
  local at, charged, released, held = seek(s, 1, st.cells, deadline)
  local rest = sub(s, at + (held > 0 and CELL or 0))
  charged, released, held = charged + charge, released + release, held + n
  st.charge, st.release, st.holds = st.charge + charge, st.release + release, st.holds + n
  if min(charged, released, held, st.charge, st.release, st.holds) < 0 or held == 0 and charged + released > 0 then
    record.damaged(rec.key, 'holds that do not add up')
  end
  keep(st, rec, sub(s, 1, at - 1) .. (held > 0 and pack('>I6I6I6I3', deadline, charged, released, held) or '') .. rest)
  if n > 0 then
    if charge > 0 then st.last_charge = max(st.last_charge, deadline) else st.last_release = max(st.last_release, deadline) end
  elseif charged == 0 and st.last_charge == deadline or released == 0 and st.last_release == deadline then
    st.last_charge, st.last_release = latest(st)
  end
end

-- admits raises an error if a window of a spec has no room for another hold. states are those that weigh has found.
function holds.admits(q, states)
  local most, name = holds.MOST, 'reservations'
  if q.kind == CONCURRENCY then most, name = MOST_LEASES, 'leases' end
  for i = 1, q.count do
    local held = states[i].held
    if held and held.holds >= most then error({ err = 'ERR too many ' .. name .. ' for this key' }) end
  end
end

-- add holds units of each window of a spec until a deadline. states, if given, are those of weigh. They report as when charged.
function holds.add(rec, q, deadline, units, release, states)
  for i = 1, q.count do
    local st = record.find(HOLDS + q.kind, q.buckets, q.windows[i])
    if not st then
      st = record.state(HOLDS + q.kind, q.buckets, q.windows[i])
      record.add(st)
      rec.held = true
    end
    if st.cells == 0 then st.last, st.rate, st.lapsed = 0, 0, 0 end -- these count since the window last held nothing
    change(st, rec, deadline, release and 0 or units, release and units or 0, 1)
    st.rate = rate.charged(rec.now, st.last, st.rate, rec.now)
    st.last, st.limit = rec.now, min(q.limits[i], 1e12)
    if states then states[i].held, states[i].reported_newest = st, states[i].current or 0 end
  end
end

-- still_held reports whether the cell of a hold still has enough units. It cannot tell whose they are.
function holds.still_held(q, deadline, units, release)
  for i = 1, q.count do
    local st = record.find(HOLDS + q.kind, q.buckets, q.windows[i])
    if not st then return false end
    local _, charged, released = seek(cells(st), 1, st.cells, deadline)
    if (release and released or charged) < units then return false end
  end
  return true
end

-- remove removes one hold that add has added.
function holds.remove(rec, q, deadline, units, release)
  for i = 1, q.count do
    local st = record.find(HOLDS + q.kind, q.buckets, q.windows[i])
    change(st, rec, deadline, release and 0 or -units, release and -units or 0, -1)
  end
end

-- lapse removes the cells whose deadline has passed, and charges their units that are to be charged. last_charge and
-- last_release keep the latest deadlines of the cells that remain.
function holds.lapse(rec)
  for i = 1, rec.count do
    local st = rec[i]
    if st.kind > HOLDS and st.cells > 0 and st.next <= rec.now then
      local s, past, moments, charges, lapsed = cells(st), 0, {}, {}, 0
      for at = 1, #s, CELL do
        local deadline, charge, release, n = unpack('>I6I6I6I3', s, at)
        if at == 1 and deadline ~= st.next then record.damaged(rec.key, 'holds that do not add up') end
        if deadline > rec.now then break end
        if charge > 0 then moments[#moments + 1], charges[#charges + 1] = deadline, charge end
        st.charge, st.release, st.holds = st.charge - charge, st.release - release, st.holds - n
        lapsed, past = lapsed + n, at + CELL - 1
      end
      if past > 0 then
        if st.charge == 0 then st.last_charge = 0 end
        if st.release == 0 then st.last_release = 0 end
        if min(st.charge, st.release, st.holds) < 0 then record.damaged(rec.key, 'holds that do not add up') end
        if #moments > 0 then holds.charge(rec, st, moments, charges) end
        st.lapsed, rec.lapsed = min(st.lapsed + lapsed, 2 ^ 32 - 1), max(rec.lapsed, lapsed)
        keep(st, rec, sub(s, past + 1))
      end
    end
  end
end

-- charge charges lapsed units to the log of their window, each at its deadline.
function holds.charge(rec, held, moments, units)
  local st, now = record.find(SLIDE, 1, held.window), rec.now
  if not st then
    st = record.state(SLIDE, 1, held.window)
    record.add(st)
  end
  rec.now = moments[#moments]
  slide.usage(st, rec)
  slide.append(st, held.limit, moments, units)
  for _, ms in ipairs(moments) do st.rate, st.last = rate.charged(ms, st.last, st.rate, ms), max(st.last, ms) end
  st.limit, rec.rewrite, rec.now = held.limit, true, now
end

-- counts_until returns the last ms at which units count that are charged at a deadline to a log whose newest entry is `newest`.
local function counts_until(st, deadline, newest)
  return max(slide.dated(deadline, st.limit, st.window), newest) + st.window
end

function holds.matters_until(st)
  return max(st.last_release - 1, st.last_charge > 0 and counts_until(st, st.last_charge, 0) or 0)
end

-- reported returns the ms that a reply reports as the newest admission of a window whose newest one is `last`: with held units
-- it is later, such that the window seems empty exactly when all held units have ended, too. last_charge and last_release are
-- the latest deadlines of these, and limit is that of their state.
function holds.reported(kind, window, limit, last, last_charge, last_release)
  if kind == CONCURRENCY then return last_release end
  if kind ~= SLIDE then return max(last, last_release - 1) end
  return max(last, last_release - window - 1, last_charge > 0 and slide.dated(last_charge, limit, window) or 0)
end

-- reported_last returns the same for a state in memory.
function holds.reported_last(st)
  local held = st.held
  if not held or held.cells == 0 then return st.reported_last end
  return holds.reported(st.kind, st.window, held.limit, st.reported_last, held.last_charge, held.last_release)
end

-- beside reads the held units of a window from the fields at index `at` of s. It returns the units, and the latest deadlines of
-- units to charge and to release. It returns nothing if the slow path has to decide: if some have lapsed, or the clock is
-- before the newest hold. Deadlines are later than any charge, so the clock of the node is enough to find what has lapsed.
function holds.beside(s, at, clock)
  local last, _, charge, release, _, last_charge, last_release, next = unpack('>I6I13I6I6I4I6I6I6', s, at)
  if last > clock or next > 0 and next <= clock then return end
  return charge + release, last_charge, last_release
end

-- weigh sets, for each window of a spec, its state and the units that count: those charged and those held. If strict, an
-- RL.COUNTER counts its oldest sub-window in full.
function holds.weigh(rec, q, states, uses, strict)
  for i = 1, q.count do
    local st = record.find(q.kind, q.buckets, q.windows[i]) or record.state(q.kind, q.buckets, q.windows[i])
    states[i], uses[i], st.asked = st, q.algorithm.usage(st, rec, strict, q), true
    st.held = rec.held and record.find(HOLDS + q.kind, q.buckets, q.windows[i])
    if st.held then uses[i], st.held.asked = uses[i] + st.held.charge + st.held.release, true end
  end
end

-- ends returns the moments at which held units end, in order, and the units still held from each of them on. Index 0 is now.
local function ends(st, rec, newest)
  local s, list = cells(st), {}
  for at = 1, #s, CELL do
    local deadline, charge, release = unpack('>I6I6I6', s, at)
    if release > 0 then list[#list + 1] = { deadline, release } end
    if charge > 0 then list[#list + 1] = { counts_until(st, deadline, newest) + 1, charge } end
  end
  if st.charge > 0 and st.release > 0 then table.sort(list, function(a, b) return a[1] < b[1] end) end
  local moments, rest = { [0] = rec.now }, { [0] = st.charge + st.release }
  for i, e in ipairs(list) do moments[i], rest[i] = e[1], rest[i - 1] - e[2] end
  return moments, rest
end

-- room_at returns the first ms at which at most `most` units of the window count; now, `over` more do. Charged and held
-- units expire independently: room_at finds the first end of a hold after which there is room at once, and then checks whether
-- charged units make room before that.
function holds.room_at(st, rec, over, most, strict)
  local algorithm = lib.algorithms[st.kind]
  if not st.held or st.held.cells == 0 then return algorithm.room_at(st, rec, over, most, strict) end
  local moments, rest = ends(st.held, rec, st.newest)
  local used = most + over - rest[0]
  local function room(i) -- when the charged units leave room beside the units held from the i-th moment on
    local left = most - rest[i]
    if used <= left then return 0 end
    return left < 0 and math.huge or algorithm.room_at(st, rec, used - left, left, strict)
  end
  local low, high = 0, #moments
  while low < high do
    local mid = floor((low + high) / 2)
    if room(mid) <= moments[mid] then high = mid else low = mid + 1 end
  end
  local ms = max(moments[low], room(low))
  return low > 0 and min(ms, room(low - 1)) or ms
end
end)(lib)
;(function(...)
-- ids.lua: the remembered ids of a key. They are in a hash beside the record, whose name is the stored key's followed by %i.
--
-- An id is stored as its digest, and ids of different kinds are independent. The first 2 bytes of a digest, which have
-- 12 bits, are the name of a field of the hash, a bucket. A bucket's value is the concatenation of its entries. The fields
-- are, with their lengths in bytes:
--
--   entry   the rest of the digest 14, kind 1 (1: ONCE, 2: a reservation, 3: RL.ACQUIRE or AND), the ms at which it expires 6,
--           length of the rest 2; for a hold: 1 if it is forgotten when it lapses 1, the ms that it lasts 5, and its state 6: 0
--           while it is out, else its final cost plus 1; then the request: the length of a spec 1, and the spec; then the
--           first reply, except for kind 3
--   n       a field: the number of entries of each kind 3 each, the ms at which the hash expires 6, the ms of the newest
--           request that changed an id 6
--
-- Expired entries are dropped when their bucket is written. So an id costs two Redis calls, however many ids there are.
local lib = ...

local call, unpack, pack, sub = redis.call, struct.unpack, struct.pack, string.sub
local max = math.max
local layout, record = lib.layout, lib.record
local BUCKETS, FRONT, HOLD, COUNTS = 4096, 23, 12, '>I3I6I6I6'
local SLICE = 256  -- buckets that are swept at once
local MOST = 65536 -- ids of one kind
local NAMES = { 'ids', 'reservations', 'leases' }
local YEAR, WRAP, SHIFT, ONCE, LEASE = layout.YEAR, layout.WRAP, layout.SHIFT, 1, 3
local ids = { ONCE = ONCE, LEASE = LEASE } -- kinds
lib.ids = ids

-- The id in memory. There is one at a time, and the table is reused:
--   1, 2, 3           the number of entries of each kind, without this id
--   kind              the kind of the id
--   last              the ms of the newest request that changed an id, from n
--   found             the request and the first reply, if the id is known, else false
--   till, release, ttl, settled
--                     if the id is known, the other fields of its entry
-- Only this file uses the key (record_key), its hash, the bucket and the digest of the id, the other entries in its bucket
-- (others), and the ms at which the hash expires (ending).
local id = { 0, 0, 0, kind = 0, last = 0, found = false, till = 0, release = 0, ttl = 0, settled = 0 }
local record_key, hash, bucket, digest, others, ending = '', '', '', '', '', 0
ids.id = id

-- sift returns a bucket's entries without those that have expired at now. If the bucket is the id's own, it also removes the
-- id's entry, and reads it into memory unless it has expired. It subtracts what it removes from the counts.
local function sift(s, now, own)
  if #s > layout.BUCKET_BYTES then record.damaged(record_key, 'a bucket of ' .. #s .. ' bytes of ids') end
  local at, from, left = 1, 1, ''
  while at <= #s do
    local d, k, till, bytes = unpack('>c14BI6I2', s, at)
    local stop = at + FRONT + bytes
    if not id[k] or stop > #s + 1 then record.damaged(record_key, 'ids that end within themselves') end
    local mine = own and d == digest and k == id.kind
    if mine or till <= now then
      if at > from then left = left .. sub(s, from, at - 1) end
      from, id[k] = stop, max(id[k] - 1, 0)
      if mine and till > now then
        local begin = at + FRONT
        if k ~= ONCE then
          id.release, id.ttl, id.settled = unpack('>BI5I6', s, begin)
          begin = begin + HOLD
        end
        id.found, id.till = sub(s, begin, stop - 1), till
      end
    end
    at = stop
  end
  return from < at and left .. sub(s, from) or left
end

-- open reads what is stored about an id into memory.
function ids.open(key, kind, field, rest_of_digest, clock)
  record_key, hash, bucket, digest, others, id.kind, id.found = key, key .. '%i', field, rest_of_digest, '', kind, false
  local got = call('HMGET', hash, 'n', bucket)
  local n, s, count = got[1], got[2]
  if n then
    id[1], count, ending, id.last = unpack(COUNTS, n) -- the last two counts as one number, which is faster
    id[2], id[3] = (count - count % SHIFT) / SHIFT, count % SHIFT
    if ending > clock + 4 * YEAR or id.last > clock + YEAR then record.damaged(key, 'ids of the far future') end
  else
    id[1], id[2], id[3], ending, id.last = 0, 0, 0, 0, 0
  end
  if s then others = sift(s, clock, true) end
end

-- record opens the key's record at the clock, or at the newest change of an id if that is later. The id may have expired by
-- then.
function ids.record(clock)
  local rec = record.open(record_key, max(clock, id.last))
  if id.till <= rec.now then id.found = false end
  return rec
end

local function counted() return pack(COUNTS, id[1], id[2] * SHIFT + id[3], ending, id.last) end

-- sweep drops the expired entries of the id's bucket and of the buckets after it.
local function sweep(now)
  local fields, set, first = {}, { bucket, others }, unpack('>I2', bucket)
  for i = 1, SLICE do fields[i] = pack('>I2', (first + i) % BUCKETS) end
  for i, s in ipairs(call('HMGET', hash, _G.unpack(fields))) do
    local left = s and sift(s, now)
    if s and #left < #s then set[#set + 1], set[#set + 2] = fields[i], left end
  end
  call('HSET', hash, 'n', counted(), _G.unpack(set))
end

-- full reports whether there may be no room for another id.
function ids.full()
  return id[id.kind] >= MOST and id.kind ~= LEASE or #others > layout.BUCKET_BYTES - 1024 -- leases have cells that count
end

-- admits raises an error if there is no room for another id.
function ids.admits(now)
  if not ids.full() then return end
  sweep(now)
  if ids.full() then error({ err = 'ERR too many ' .. NAMES[id.kind] .. ' for this key' }) end
end

-- keep stores an id from now until the ms `till`, with its request and the answer. The hash expires somewhat later, so that its
-- expiry seldom has to be changed.
function ids.keep(now, till, asked, answer)
  local kind, moves, bytes, front = id.kind, till > ending, #asked + #answer
  if kind == ONCE then
    front = pack('>I7I2', kind * WRAP + till, bytes)
  else
    front = pack('>I7I2I6I6', kind * WRAP + till, bytes + HOLD, id.release * 2 ^ 40 + id.ttl, id.settled)
  end
  id[kind] = id[kind] + 1
  if now > id.last then id.last = now end
  if moves then ending = lib.holds.deadline(now, till - now) end
  call('HSET', hash, bucket, others .. digest .. front .. asked .. answer, 'n', counted())
  if moves then record.expire(hash, ending) end
end

-- drop forgets an id.
function ids.drop(now)
  id.last = max(id.last, now)
  if id[1] + id[2] + id[3] <= 0 then
    call('UNLINK', hash)
    return
  end
  if others == '' then
    call('HDEL', hash, bucket)
    call('HSET', hash, 'n', counted())
  else
    call('HSET', hash, bucket, others, 'n', counted())
  end
end
end)(lib)
;(function(...)
-- lease.lua: what the home and the other shards of a split key have in common. shard/lease/lease.go explains the protocol.
--
-- Each has a lease record: a state of the kind HOME or SHARD, always the last state of the key's record. Its area is the first
-- digits of the SHA-1 of a packed table, and the table, packed by cmsgpack. It is padded so that most changes can be written in
-- place. Its fields end with the lease summary: what the fast path must know to admit without reading the table.
--
--   summary  the spec that it is about, from its flags on, 14 bytes; the units that may be in use here 6; what is added to
--            the usage for the reply 6; the first and the last ms at which the summary is valid 6 and 6; shards 2 (0 at a shard)
--
-- States are named by the first 8 bytes of their names in a record. pairs has, per window, the state's name 8 and limit 5.
local lib = ...

local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local max, ceil, zeros = math.max, math.ceil, string.rep
local layout, record = lib.layout, lib.record
local HOME, SHARD, COUNTER = layout.HOME, layout.SHARD, layout.COUNTER
local UNITS, NAME, DIGEST = layout.UNITS, layout.NAME_BYTES, layout.DIGEST_BYTES
local PAD = 64
local lease = {
  LEASE = 1000,  -- ms that a loan lasts, counted from before it was requested
  SHARDS = 1024, -- the most shards of a key
  NAMES = 9216,  -- the most states, over all shards, in a home's table: with more it would not fit into LEASE_BYTES
}
lib.lease = lease

function lease.matters_until(st) return st.ending end

-- life returns for how long, in ms, a unit may count after it is admitted, without the rounding of a log's grid.
function lease.life(name)
  local kind, buckets, window = unpack('>BI2I5', name)
  return kind == COUNTER and window + ceil(window / max(buckets, 1)) or window
end

-- each calls back(i, name, limit) for each of the pairs.
function lease.each(pairs, back)
  for i = 1, #pairs / NAME do back(i, sub(pairs, i * NAME - 12, i * NAME - 5), (unpack('>I5', pairs, i * NAME - 4))) end
end

-- used returns the units in use of a state, the ms until the first of them no longer counts, and the state, if there is one.
function lease.used(rec, name, strict)
  local kind, buckets, window = unpack('>BI2I5', name)
  local st = record.find(kind, buckets, window)
  if not st or st.kind == HOME or st.kind == SHARD then return 0, 0 end
  local used = lib.algorithms[kind].usage(st, rec, strict)
  return used, lease.first(rec, st, used, strict), st
end

-- first returns the ms until the first of the units in use no longer counts.
function lease.first(rec, st, used, strict)
  if used <= 0 then return 0 end
  local ms = lib.holds.room_at(st, rec, 1, used - 1, strict) - rec.clock
  if used > UNITS or ms > layout.DELAY then record.damaged(rec.key, 'what it counts does not add up') end
  return max(ms, 1)
end

-- digest returns what is stored before a packed table, to recognize bytes that have changed.
local function digest(packed) return sub(redis.sha1hex(packed), 1, DIGEST) end

-- open returns the table of the record's lease record, and its state, if there is one. A lease record of another kind than the
-- given one is damage, and so is a table that is not as keep has stored it. No other number in a table is checked.
function lease.open(rec, kind)
  local st = rec.lease
  if not st then return nil, st end
  local s = record.area(st)
  local packed = sub(s, DIGEST + 1, st.size)
  if st.kind ~= kind or st.size > st.slots or digest(packed) ~= sub(s, 1, DIGEST) then
    record.damaged(rec.key, 'a lease record without its table')
  end
  return cmsgpack.unpack(packed), st
end

-- summarize packs a lease summary of a table. A summary can be about one window only, and its numbers must not be negative;
-- otherwise it is empty, and only the slow path can answer.
local function summarize(kind, t, bound, offset, from, till)
  if #t.pairs ~= NAME or bound < 0 or offset < 0 or till < from then return zeros('\0', layout.SUMMARY_BYTES) end
  local flags = (t.strict and 1 or 0) + (kind == SHARD and 2 or 0)
  return pack('>Bc13I6I6I6I6I2', flags, t.pairs, bound, offset, from, till, t.shards or 0)
end

-- summary reads the lease summary in s at an index. It returns the bound, the offset and the shards; nil, 0, 0 if the summary
-- is not about the spec q or not valid at the clock.
function lease.summary(q, s, at, clock)
  local about, bound, offset, from, till, shards = unpack('>c14I6I6I6I6I2', s, at)
  if about == q.about and clock >= from and clock <= till and bound + offset <= UNITS then return bound, offset, shards end
  return nil, 0, 0
end

-- limit returns the limit of pairs if they are about one window, and otherwise 0.
function lease.limit(pairs) return #pairs == NAME and unpack('>I5', pairs, 9) or 0 end

-- keep puts a table into the record in memory, which record.save writes. bound to till are for its summary.
function lease.keep(rec, kind, t, ending, bound, offset, from, till)
  local st, packed = rec.lease, cmsgpack.pack(t)
  local s = digest(packed) .. packed
  local slots = ceil(#s / PAD) * PAD
  if not st then
    st = record.state(kind, 1, 0)
    record.add(st)
  end
  if st.slots ~= slots then rec.rewrite = true end
  st.size, st.slots, st.ending, st.summary = #s, slots, ending, summarize(kind, t, bound, offset, from, till)
  st.area = s .. zeros('\0', slots - #s)
  st.patch, st.patch_at = st.area, 0
end
end)(lib)
;(function(...)
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
-- An algorithm may have one more function, straight, which decides the most common case in one step: one window of an inline
-- record. It gives the same reply and stores the same bytes as the operations.
local lib = ...

local layout = lib.layout

lib.algorithms = {
  [layout.SLIDE] = lib.slide,
  [layout.COUNTER] = lib.counter,
  [layout.FIXED] = lib.fixed,
  [layout.GCRA] = lib.gcra,
  -- A lease record is not charged; it only has matters_until.
  [layout.HOME] = lib.lease,
  [layout.SHARD] = lib.lease,
  -- CONCURRENCY is never charged, and the states of held units only have matters_until.
  [layout.CONCURRENCY] = lib.holds.nothing,
  [layout.HOLDS + layout.SLIDE] = lib.holds,
  [layout.HOLDS + layout.COUNTER] = lib.holds,
  [layout.HOLDS + layout.FIXED] = lib.holds,
  [layout.HOLDS + layout.CONCURRENCY] = lib.holds,
}
end)(lib)
;(function(...)
-- home.lua: the home of a split key. The home owns the limit, lends pieces of it to the other shards, and is the only shard
-- that denies. The functions are those of shard/lease/model/home.go.
--
-- The table of a home's lease record has
--   shards             how many shards the key has, with the home
--   pairs, strict      what the live leases were granted for, see lease.lua
--   seq                that of the newest loan
--   no_lending_until   ms
--   lent               a list with a table for each shard that was lent to: shard (its number), seq, incarnation, ended (whether
--                      its lease has ended), strict (out counts in full), and out (by state, the units that it may have in use)
local lib = ...

local unpack, pack, sub, byte = struct.unpack, struct.pack, string.sub, string.byte
local max, min, floor, concat = math.max, math.min, math.floor, table.concat
local layout, record, lease, holds = lib.layout, lib.record, lib.lease, lib.holds
local HOME, LEASE = layout.HOME, lease.LEASE
local GRACE = 20  -- ms that a loan has to arrive before its shard is lent more
local SCARCE = 32 -- nothing is lent when less than the limit divided by SCARCE is left
local home = {}
lib.home = home

-- units_out returns how many units of a state a shard may have in use, or nil if a strict count of a weighted out is unknown.
local function units_out(l, name, strict)
  if not strict or l.strict or not l.out[name] or byte(name) ~= layout.COUNTER then return l.out[name] or 0 end
end

-- open returns the home's table, without units that no shard can use any more; or nothing if there is no table.
function home.open(rec)
  local h = lease.open(rec, HOME)
  if not h then return end
  local lent = {}
  for _, l in ipairs(h.lent) do
    local made, any = floor(l.seq / 1000), false
    for name in pairs(l.out) do
      if rec.clock > made + LEASE + lease.life(name) then l.out[name] = nil end
      any = any or units_out(l, name, true) ~= 0
    end
    if any then lent[#lent + 1] = l end
  end
  h.lent = lent
  return h
end

-- lent returns the home's table if anything is lent.
function home.lent(rec)
  local h = home.open(rec)
  if h and #h.lent > 0 then return h end
end

-- keep puts the table into the record in memory, to live for as long as lent units may count.
local function keep(rec, h)
  local ending, lapse, lent = h.no_lending_until, -1, 0
  local name, limit = sub(h.pairs, 1, 8), lease.limit(h.pairs)
  for _, l in ipairs(h.lent) do
    lent = lent + (units_out(l, name, h.strict) or limit)
    for of, n in pairs(l.out) do
      local last = floor(l.seq / 1000) + LEASE + lease.life(of)
      ending = max(ending, last)
      if n > 0 and (lapse < 0 or last < lapse) then lapse = last end
    end
  end
  lease.keep(rec, HOME, h, ending, limit - lent, lent, 0, lapse)
end

local function lent_to(h, number)
  for i, l in ipairs(h.lent) do
    if l.shard == number then return l, i end
  end
end

-- collect applies a report, unless the shard was lent to since the report was requested. It returns true if states are missing.
local function collect(h, r)
  local l = lent_to(h, r.shard)
  if not l or r.stale or r.seq < l.seq or r.incarnation ~= l.incarnation then return end
  l.ended = l.ended or r.ended
  if r.strict ~= l.strict then
    for name in pairs(l.out) do
      if not r.used[name] then return true end -- it would count otherwise than the table says
    end
  end
  for name, n in pairs(r.used) do
    if l.out[name] and (n < l.out[name] or r.strict ~= l.strict) then l.out[name] = n end
  end
  l.strict = r.strict
end

local function live(l, clock) return not l.ended and clock <= floor(l.seq / 1000) + LEASE end

local function same(h, q) return h.pairs == q.pairs and h.strict == q.strict end

-- other_leases reports whether a shard may be admitting requests of another spec.
local function other_leases(h, clock, q)
  if same(h, q) then return false end
  for _, l in ipairs(h.lent) do
    if live(l, clock) then return true end
  end
  return false
end

-- room_of returns, by window, what is left of the limit.
local function room_of(h, q, uses, others)
  local limits, room = {}, {}
  if others then
    lease.each(h.pairs, function(_, name, limit)
      limits[name] = h.strict == q.strict and min(limits[name] or limit, limit) or 0
    end)
  end
  for i = 1, q.count do
    local name, limit = q.names[i], q.limits[i]
    room[i] = min(limit, limits[name] or limit) - uses[i]
    for _, l in ipairs(h.lent) do room[i] = room[i] - (units_out(l, name, q.strict) or max(room[i], 0)) end
  end
  return room
end

-- unread returns the recalls that are needed before the rest may be denied: those of shards that have units in use, or a live
-- lease for another spec, and are not in read, see decide.
local function unread(h, clock, q, read)
  local recalls, alike = {}, same(h, q)
  for _, l in ipairs(h.lent) do
    local needed = not alike and live(l, clock)
    for _, name in ipairs(q.names) do needed = needed or units_out(l, name, q.strict) ~= 0 end
    if needed and not (read[l.shard] and read[l.shard] >= l.seq) then
      recalls[#recalls + 1] = { l = l, close = not alike }
    end
  end
  return recalls
end

-- lend lends an equal share of the room to the shard that refused, on top of what it has. It returns the loan, if any.
local function lend(h, clock, q, refusal, room)
  if h.shards < 2 or clock < h.no_lending_until then return end
  local l, at = lent_to(h, refusal.shard)
  if l and (refusal.incarnation ~= l.incarnation
    or refusal.seq ~= l.seq and clock < floor(l.seq / 1000) + GRACE) then return end
  local loan, more = { seq = max(h.seq + 1, refusal.seq + 1, clock * 1000), held = {}, headroom = {} }, false
  for i, name in ipairs(q.names) do
    local piece, has = floor(room[i] / h.shards), l and l.out[name] or 0
    if room[i] < floor(q.limits[i] / SCARCE) then piece = 0 end
    if has + piece < q.cost then return end
    more = more or piece > 0
    loan.held[i], loan.headroom[i] = has + piece, room[i] - piece
  end
  if not more and not refusal.ended then return end
  local out, names = {}, q.count
  for i, name in ipairs(q.names) do out[name] = loan.held[i] end
  for name, n in pairs(l and l.out or {}) do -- units of other specs still count
    if not units_out(l, name, q.strict) then return end
    if not out[name] and units_out(l, name, true) ~= 0 then out[name], names = n, names + 1 end
  end
  local all = names
  for _, other in ipairs(h.lent) do
    for _ in pairs(other ~= l and other.out or {}) do all = all + 1 end
  end
  if names > layout.STATES or all > lease.NAMES or not l and #h.lent >= lease.SHARDS then return end
  h.lent[at or #h.lent + 1] = { shard = refusal.shard, seq = loan.seq, incarnation = refusal.incarnation, ended = false,
    strict = q.strict, out = out }
  h.pairs, h.strict, h.seq = q.pairs, q.strict, loan.seq
  return loan
end

-- decide returns how many requests are granted, the room that there was by window, the recalls that are needed before the rest
-- is denied, and the loan. uses are the home's own units in use, by window. reports is how many reports there were. read has
-- the newest seq that was read of each shard; a shard that cannot be reached is in it, too.
function home.decide(h, clock, q, uses, requests, refusal, reports, read)
  if refusal and refusal.ended and not collect(h, refusal) then
    read[refusal.shard] = max(read[refusal.shard] or 0, refusal.seq)
  end
  local others = other_leases(h, clock, q)
  local room = room_of(h, q, uses, others)
  local granted = requests
  for _, units in ipairs(room) do granted = max(min(granted, floor(units / q.needs)), 0) end
  local recalls = granted < requests and unread(h, clock, q, read) or {}
  if #recalls > 0 and reports > 0 then h.no_lending_until = clock + floor(LEASE / 4) end
  -- An admission reports the room of its own limits. Only a denial may be due to the limits of other leases.
  if others and (granted == requests or #recalls > 0) then room = room_of(h, q, uses, false) end
  if granted < requests or not refusal or others then return granted, room, recalls end
  local left = {}
  for i, units in ipairs(room) do left[i] = units - granted * q.cost end
  return granted, room, {}, lend(h, clock, q, refusal, left)
end

-- refused reads the number of a shard and its refusal, see shard.lua.
local function refused(s, q)
  if s == '' then return end
  local r, ended = { used = {}, strict = q.strict }
  r.shard, r.clock, r.incarnation, r.seq, ended = unpack('>I4I6I6I7B', s)
  r.ended = ended == 1
  for i, name in ipairs(r.ended and q.names or {}) do r.used[name] = unpack('>I6', s, 25 + (i - 1) * 12) end
  return r
end

-- reported reads reports.
local function reported(s)
  local list, at = {}, 1
  while at <= #s do
    local r, flags, n = { used = {} }
    r.shard, r.seq, r.incarnation, flags, n, at = unpack('>I4I7I6BB', s, at)
    r.stale, r.ended, r.strict = flags % 2 == 1, flags % 4 >= 2, flags >= 4
    for _ = 1, n do
      r.used[sub(s, at, at + 7)] = unpack('>I6', s, at + 8)
      at = at + 14
    end
    list[#list + 1] = r
  end
  return list
end

-- The function rl_lend decides at the home of a split key, from the reports of the other shards, and lends to the shard that
-- refused. A spec without cost, or without windows, only reads.
--
-- KEYS[1] the home's stored key
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] requests 4 bytes, the number of shards that the caller wants 2
-- ARGV[3] the spec, see spec.lua
-- ARGV[4] empty, or the number of the shard that refused 4, then its refusal, see shard.lua
-- ARGV[5] reports, each: shard 4, seq 7, incarnation 6, flags 1 (1: stale, 2: its lease has ended, 4: counted in full),
--         states 1, per state its name 8, used 6
-- ARGV[6] the numbers of shards that cannot be reached, 4 each
-- ARGV[7] absent or empty, or the fields of the id of the only request, see admit.lua
-- returns with such fields, first 1 byte: 1 if its id is known, and then the rest is as rl_admit returns it. Otherwise
--         the clock 6, granted 4, rate 3, shards in the layout 2 (0: nothing is lent; plus 32768 if the key has held units:
--         then the number of lapsed holds that this call removed 3 follows),
--         per window used 6 (by all shards, as the home sees it), own 6 (used at home), ms until the first of those is no
--         longer used 6, last 6, newest 6, units of all other shards 6,
--         the number of shards lent to 2, each: shard 4, incarnation 6, per window its units 6,
--         the number of recalls 2, each: shard 4, seq 7, flags 1 (1: end the lease, 2: count in full), states 1, names,
--         and with a loan its seq 7, per window held 6, headroom at home 6
-- Cost: O(shards), one write if something was granted, lent or reported.
lib.lend = record.guarded(function(keys, args)
  local clock, key, q = lib.clock_of(args[1]), keys[1], lib.spec.of(args[3])
  local requests, wanted = unpack('>I4I2', args[2])
  local by_id = (args[7] or '') ~= '' and q.cost > 0 and lib.by_id
  if by_id then by_id.open(args[7], key, clock) end
  local rec = by_id and lib.ids.record(clock) or record.open(key, clock)
  local known = by_id and by_id.again(rec, q, clock)
  if known then return known end
  local was = record.ends()
  local h = home.open(rec) or { shards = wanted, pairs = '', strict = false, seq = 0, no_lending_until = 0, lent = {} }
  if #h.lent == 0 then h.shards = wanted end
  local before = cmsgpack.pack(h)
  local states, uses = {}, {}
  holds.weigh(rec, q, states, uses, q.strict)
  local reports, read = reported(args[5]), {}
  for _, r in ipairs(reports) do
    collect(h, r)
    if not r.stale then read[r.shard] = max(read[r.shard] or 0, r.seq) end
  end
  for at = 1, #args[6], 4 do read[unpack('>I4', args[6], at)] = layout.WRAP * 32 end -- as if read, whatever was lent
  local granted, room, recalls, loan
  if q.cost == 0 then
    granted, room, recalls = 0, room_of(h, q, uses, false), {}
    for i, l in ipairs(h.lent) do recalls[i] = { l = l, close = true } end
  else
    granted, room, recalls, loan = home.decide(h, clock, q, uses, requests, refused(args[4], q), #reports, read)
  end
  local units = granted * q.cost
  if units > 0 then (by_id and by_id.take or lib.charge)(rec, q, states, units) end
  for i = 1, q.count do
    if q.limits[i] - room[i] > layout.UNITS then record.damaged(key, 'what it counts does not add up') end
  end

  local reply, calls, first_answer = { '' }, 0, ''
  local function add(s) reply[#reply + 1] = s end
  for i = 1, q.count do
    local st, lent, first = states[i], 0, 0
    for _, l in ipairs(h.lent) do lent = lent + (l.out[q.names[i]] or 0) end
    calls = max(calls, lib.rate.at(clock, st.last, st.rate))
    local own, last, newest = uses[i] + units, holds.reported_last(st), st.reported_newest
    if granted < requests and own > 0 then first = lease.first(rec, st, own, q.strict) end
    add(pack('>I6I6I6I6I6I6', q.limits[i] - room[i], own, first, last, newest, lent))
    first_answer = first_answer .. pack('>I6I6I6I6', q.limits[i] - room[i], 0, lent > 0 and max(last, clock) or last,
      newest + lent)
  end
  add(pack('>I2', #h.lent))
  for _, l in ipairs(h.lent) do
    add(pack('>I4I6', l.shard, l.incarnation))
    for _, name in ipairs(q.names) do add(pack('>I6', l.out[name] or 0)) end
  end
  add(pack('>I2', #recalls))
  for _, r in ipairs(recalls) do
    local names = {}
    for name in pairs(r.l.out) do names[#names + 1] = name end
    add(pack('>I4I7BB', r.l.shard, r.l.seq, (r.close and 1 or 0) + (q.strict and 2 or 0), #names) .. concat(names))
  end
  if loan then
    add(pack('>I7', loan.seq))
    for i = 1, q.count do add(pack('>I6I6', loan.held[i], loan.headroom[i])) end
  end
  if q.cost > 0 and (units > 0 or cmsgpack.pack(h) ~= before) then
    if #h.lent > 0 then keep(rec, h) end
    record.save(was)
  else
    rec.lapsed = 0
  end
  if by_id then by_id.remember(q, rec.now, pack('>BI6BI4I3', 0, clock, layout.DECIDED, granted, calls) .. first_answer) end
  reply[1] = (args[7] or '') ~= '' and '\0' or ''
  reply[1] = reply[1] .. pack('>I6I4I3I2', clock, granted, calls, (#h.lent > 0 and h.shards or 0) + (rec.held and 32768 or 0))
    .. (rec.held and pack('>I3', rec.lapsed) or '')
  return concat(reply)
end)

-- The function rl_forget completes the reset of a split key at its home, after the other shards have forgotten their units.
--
-- KEYS[1] the home's stored key
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] for each shard that forgot: its number 4 bytes, the seq that it was sent 7
-- returns 1 byte: 1 if nothing is left, 0 if shards remain that did not forget, or were lent to since
-- Cost: O(shards).
lib.forget = record.guarded(function(keys, args)
  local clock, key, forgot = lib.clock_of(args[1]), keys[1], {}
  for at = 1, #args[2], 11 do
    local number, seq = unpack('>I4I7', args[2], at)
    forgot[number] = seq
  end
  local h = home.open(record.open(key, clock))
  redis.call('PUBLISH', 'rl:reset', key) -- to proxies that remember denials
  local left = {}
  for _, l in ipairs(h and h.lent or {}) do
    if not forgot[l.shard] or forgot[l.shard] < l.seq then left[#left + 1] = l end
  end
  if #left == 0 then
    redis.call('UNLINK', key, key .. '%i')
    return '\1'
  end
  h.lent = left
  redis.call('UNLINK', key .. '%i')
  keep(record.load(key, clock, ''), h)
  record.save(0)
  return '\0'
end)
end)(lib)
;(function(...)
-- shard.lua: a shard of a split key, which admits within what the home has lent it. The functions are those of
-- shard/lease/model/shard.go.
--
-- The table of a shard's lease record has incarnation and seq, and of its lease: pairs and strict, what it was lent for; held
-- and headroom, by window; taken, the ms at which it was taken; and lease, the ms at which it ends.
local lib = ...

local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local max, min, floor, concat = math.max, math.min, math.floor, table.concat
local layout, record, lease = lib.layout, lib.record, lib.lease
local SHARD, LEASE = layout.SHARD, lease.LEASE
local shard = {}
lib.shard = shard

-- live reports whether the shard may admit. While the clock is earlier than a time that the shard has already seen, it may not.
local function live(p, rec)
  return p ~= nil and p.taken <= rec.clock and rec.now <= rec.clock and rec.clock < p.lease
end

-- keep puts the table into the record in memory, to live until ending.
local function keep(rec, p, ending)
  local held, headroom = p.held[1] or 0, p.headroom[1] or 0
  lease.keep(rec, SHARD, p, ending, held, lease.limit(p.pairs) - held - headroom, p.taken, p.lease - 1)
end

local function fresh(incarnation, seq)
  return { incarnation = incarnation, seq = seq, pairs = '', strict = false, held = {}, headroom = {}, taken = 0, lease = 0 }
end

-- remember creates the lease record if there is none, and extends its life to as long as the home may count a loan that
-- answers this refusal. It returns the table, and whether the record has to be saved.
local function remember(rec, p, q)
  local clock, life = rec.clock, 0
  for _, name in ipairs(q.names) do life = max(life, lease.life(name)) end
  if p and rec.lease.ending >= clock + 2 * LEASE + life then return p, false end
  p = p or fresh(clock, 0)
  keep(rec, p, clock + 3 * LEASE + 2 * life)
  return p, true
end

-- ask returns how many requests are granted, the room by window, the refusal, and whether the record has to be saved. The
-- refusal is empty if all requests are granted; else it is the clock 6, incarnation 6, seq 7, 1 if its lease has ended 1, and
-- then per window the units in use 6 and the ms until the first of them no longer counts 6.
function shard.ask(rec, q, states, uses, requests)
  local p = lease.open(rec, SHARD)
  local alive, granted, rooms = live(p, rec), 0, {}
  if alive and p.pairs == q.pairs and p.strict == q.strict then
    granted = requests
    for i = 1, q.count do
      granted = max(min(granted, floor((p.held[i] - uses[i]) / q.needs)), 0)
      rooms[i] = max(p.held[i] - uses[i] + p.headroom[i], 0)
    end
  end
  if granted == requests then return granted, rooms, '', false end
  local kept
  p, kept = remember(rec, p, q)
  local refusal = { pack('>I6I6I7B', rec.clock, p.incarnation, p.seq, alive and 0 or 1) }
  if not alive then
    for i = 1, q.count do
      refusal[i + 1] = pack('>I6I6', uses[i], lease.first(rec, states[i], uses[i], q.strict))
    end
  end
  return granted, rooms, concat(refusal), kept
end

-- The function rl_take gives a loan to a shard, which takes it unless it is outdated. It may be sent any number of times, late
-- or never.
--
-- KEYS[1] the shard's stored key
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] seq 7 bytes, incarnation 6, clock 6 (of the refusal that it answers), strict 1, then per window the state's
--         name 8, limit 5, held 6, headroom at home 6
-- returns 1 byte: 1 if it was taken
-- Cost: O(windows), one write.
lib.take = record.guarded(function(keys, args)
  local clock, key, s = lib.clock_of(args[1]), keys[1], args[2]
  local seq, incarnation, asked, strict = unpack('>I7I6I6B', s)
  local rec = record.open(key, clock)
  local was = record.ends()
  local p, st = lease.open(rec, SHARD)
  if not p or incarnation ~= p.incarnation or seq <= p.seq or clock < asked or clock >= asked + LEASE then return '\0' end
  local names, ending = {}, st.ending -- a reset may have made it too short, see remember
  p.held, p.headroom = {}, {}
  for at = 21, #s, 25 do
    names[#names + 1] = sub(s, at, at + layout.NAME_BYTES - 1)
    p.held[#names], p.headroom[#names] = unpack('>I6I6', s, at + layout.NAME_BYTES)
    ending = max(ending, asked + 2 * LEASE + lease.life(names[#names]))
  end
  p.seq, p.pairs, p.strict, p.taken, p.lease = seq, concat(names), strict == 1, clock, asked + LEASE
  keep(rec, p, ending)
  record.save(was)
  return '\1'
end)

-- recall gives back unused units. It returns whether the recall is stale, and whether the table has changed.
local function recall(rec, p, seq, close)
  if seq < p.seq then return true, false end
  local changed = p.seq ~= seq or close and p.lease ~= 0
  p.seq = seq
  if close then p.lease = 0 end
  lease.each(p.pairs, function(i, name)
    local held = min(p.held[i], (lease.used(rec, name, p.strict)))
    changed = changed or held ~= p.held[i]
    p.held[i] = held
  end)
  return false, changed
end

-- What rl_recall is to do. Any other number: only report.
local RECALL, FORGET = 0, 1

-- The function rl_recall makes a shard give back what it has not used, or forget everything, or neither, and report. It may be
-- sent any number of times.
--
-- KEYS[1] the shard's stored key
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] what to do 1 byte (0: recall, 1: forget, 2: report only), seq 7, flags 1 (1: end the lease, 2: count in full),
--         then the names of states to report on, 8 each
-- returns seq 7, incarnation 6, flags 1 (1: stale, 2: its lease has ended, 4: counted in full), ms until its lease ends 6,
--         the clock 6, per state the units in use 6, ms until the first of them no longer counts 6, units held 6, limit as
--         last charged 5, rate 3, last 6, newest 6, see decide.lua
-- Cost: O(states), one write if something changes.
lib.recall = record.guarded(function(keys, args)
  local clock, key = lib.clock_of(args[1]), keys[1]
  local what, seq, flags = unpack('>BI7B', args[2])
  local close, strict, stale = flags % 2 == 1, flags >= 2, false
  if what == FORGET and not pcall(function() lease.open(record.open(key, clock), SHARD) end) then
    redis.call('UNLINK', key) -- it is damaged
  end
  local rec = record.open(key, clock)
  local was, changed = record.ends(), false
  local p, st = lease.open(rec, SHARD)
  if what == RECALL and p then
    stale, changed = recall(rec, p, seq, close)
    if changed then keep(rec, p, st.ending) end
  elseif what ~= RECALL then
    stale = p ~= nil and seq < p.seq
    if what == FORGET and not stale then
      p = fresh(p and p.incarnation or clock, seq)
      rec = record.load(key, clock, '')
      was, changed = 0, true
      keep(rec, p, clock + 2 * LEASE)
    end
  end
  local alive, held = live(p, rec), {}
  if p then lease.each(p.pairs, function(i, name) held[name] = p.held[i] end) end
  local out = { pack('>I7I6BI6I6', seq, p and p.incarnation or 0, (stale and 1 or 0) + (p and not stale and not alive and 2 or 0)
    + (strict and 4 or 0), alive and p.lease - clock or 0, clock) }
  for at = 10, #args[2], 8 do
    local name = sub(args[2], at, at + 7)
    local used, first, of = lease.used(rec, name, strict)
    out[#out + 1] = pack('>I6I6I6I5I3I6I6', used, first, held[name] or 0, of and of.limit or 0,
      of and lib.rate.at(clock, of.last, of.rate) or 0, of and of.reported_last or 0, of and of.reported_newest or 0)
  end
  if changed then record.save(was) end -- after this, states cannot be read any more
  return concat(out)
end)
end)(lib)
;(function(...)
-- decide.lua: the function rl_decide answers a batch of entries. An entry is a key, a spec, and a number of equal requests.
--
-- For each entry, answer reads the first bytes of the key's record and calls
--   fast_path   for nearly all entries. It reads fields at offsets that the record's directory determines, and lets the
--               algorithm's straight function decide and pack the bytes to store. Two cases differ from one window that is
--               the whole record: beside (one window among other states, or of a split key) and together (several windows).
--               fast_path returns nothing if it cannot decide.
--   slow_path   otherwise. reset deletes a key. For any other entry, record.load reads the record into memory, and
--               lib.answer decides: holds.weigh finds the states and the units in use; home.decide or shard.ask decides for a
--               split key; take (lib.charge) charges; holds.room_at computes when there is room again after a
--               denial; record.save writes the record.
-- Both give the same reply and store the same record, byte for byte. If either raises an error, lib.failure makes the reply,
-- and the batch continues with the next entry. rl_admit and rl_all also use lib.entry and lib.answer.
--
-- Example: an entry has 3 requests of cost 1 for a window of 60 s with limit 10, of which 8 units are used. granted is 2 and
-- used is 8. The proxy answers that the first two requests are admitted, with 1 and 0 remaining, and that the third is denied
-- until room at. The record is written once, with 2 more units.
--
-- KEYS    the stored key of each entry. For a node of a cluster they are at the end of ARGV instead, because a call may
--         declare keys of only one slot; the node still checks every key when it is used.
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] per entry: the index of its spec in ARGV 2 bytes, requests 4. Empty: each entry is one request with the spec
--         ARGV[3], the only one
-- ARGV[3] and on: specs, see spec.lua (kind RESET: delete the key; granted is 1 if it existed)
-- returns one string: the clock 6 bytes, then per entry a status 1 byte, and
--         DECIDED   granted 4, rate 3, per window used 6, room at 6, last 6, newest 6
--         FAILED    length 2, the text of an error; nothing was charged
--         AT_HOME   for a split key: shards 2, flags 1 (1: the shards must be read before the rest is decided; 2: the key has
--                   held units, and the number of lapsed holds that this call removed 3 follows), then as DECIDED
--         AT_SHARD  as DECIDED, then the length of the refusal 2, the refusal, see shard.lua
--         HELD      the key has held units: the number of lapsed holds that this call removed 3, then as DECIDED
--         used: units before the entry. room at: the ms at which there is room for one more request, 0 if there is now.
--         last, newest: the ms of the newest admission, and the units in its sub-window before the entry; for a rate, the ms
--         at which what was charged before the entry has drained, and the ns beyond it.
-- Cost: O(entries); per entry one Redis call to read, and one or two to write if it admits. A patched record takes one
--       more for each log to read, and to write, and up to six more for each RL.COUNTER to read.
local lib = ...

local call, unpack, pack, sub = redis.call, struct.unpack, struct.pack, string.sub
local min, max, floor, concat = math.min, math.max, math.floor, table.concat
local layout, record, rate, spec, holds, lease, home, shard =
  lib.layout, lib.record, lib.rate, lib.spec, lib.holds, lib.lease, lib.home, lib.shard
local RESET, SLIDE, HOLDS = layout.RESET, layout.SLIDE, layout.HOLDS
local YEAR, UNITS, DELAY = layout.YEAR, layout.UNITS, layout.DELAY
local SHIFT, SLOTS_AT, ENDING_AT, SUMMARY_AT = layout.SHIFT, layout.SLOTS_AT, layout.ENDING_AT, layout.SUMMARY_AT

-- clock_of returns the clock in whole ms: the number given, as in tests, or else the node's own time.
function lib.clock_of(given)
  if given ~= '' then return tonumber(given) end
  local time = call('TIME')
  local us = time[2] + 0
  return time[1] * 1000 + (us - us % 1000) / 1000
end

-- reset deletes a key and its ids, unless it is the home of a split key and other shards still hold units. A damaged record
-- is deleted in any case.
local function reset(key, s, clock)
  local sound, lent = pcall(function() return home.lent(record.load(key, clock, s)) end)
  if sound and lent then return pack('>BI2BI4I3', layout.AT_HOME, lent.shards, 1, 1, 0) end
  call('PUBLISH', 'rl:reset', key) -- to proxies that remember denials
  return pack('>BI4I3', layout.DECIDED, min(call('UNLINK', key, key .. '%i'), 1), 0)
end

local states, uses, out = {}, {}, {} -- by window, of the entry being decided

-- answer decides any entry from the record in memory, by the operations of its algorithm: any number of windows, records
-- of any form, homes and shards of split keys. take admits units, as lib.charge does, and reports whether to save the record.
-- answer returns the reply, and the ms by which the windows were decided.
function lib.answer(rec, q, requests, take)
  local key, clock, n, limits, strict, needs = rec.key, rec.clock, q.count, q.limits, q.strict, q.needs
  local granted = requests
  holds.weigh(rec, q, states, uses, strict)
  for i = 1, n do granted = max(min(granted, floor((limits[i] - uses[i]) / needs)), 0) end
  local shards, open, refusal, keep = 0, false, '', false
  local was = record.ends()
  local rated = q.interval > 0
  if q.shard then
    local rooms
    granted, rooms, refusal, keep = shard.ask(rec, q, states, uses, requests)
    for i = 1, n do uses[i] = limits[i] - (rooms[i] or 0) end
  elseif rec.lease and not rated and q.kind ~= layout.CONCURRENCY then -- rates and leases are never split
    local h = home.lent(rec)
    if h then
      local room, recalls
      granted, room, recalls = home.decide(h, clock, q, uses, requests, nil, 0, {})
      for i = 1, n do uses[i] = limits[i] - room[i] end
      shards, open = h.shards, #recalls > 0 and granted < requests or q.cost == 0
    end
  end
  local units = granted * q.cost
  if q.cost == 0 and granted > 0 then granted = requests end -- without cost, one answer serves all
  local saves = units > 0 and take(rec, q, states, units) or keep
  local calls = 0
  for i = 1, n do
    local st, over, room = states[i], uses[i] + units + needs - limits[i], 0
    if granted < requests and over > 0 and not open and not q.shard then
      room = holds.room_at(st, rec, over, limits[i] - needs, strict)
    end
    if not rated and (uses[i] > UNITS or room > clock + DELAY or room > 0 and room <= clock) then
      record.damaged(key, 'what it counts does not add up')
    end
    calls = max(calls, rate.at(clock, st.last, st.rate))
    out[i + 1] = pack('>I6I6I6I6', uses[i], room, holds.reported_last(st), st.reported_newest)
  end
  if saves then record.save(was) else rec.lapsed = 0 end
  local head = pack('>B', q.shard and layout.AT_SHARD or rec.held and layout.HELD or layout.DECIDED)
  if shards > 0 then head = pack('>BI2B', layout.AT_HOME, shards, (open and 1 or 0) + (rec.held and 2 or 0)) end
  if rec.held then head = head .. pack('>I3', rec.lapsed) end
  out[1], out[n + 2] = head .. pack('>I4I3', granted, calls), q.shard and pack('>I2', #refusal) .. refusal or ''
  return concat(out, '', 1, n + 2), rec.now
end

-- slow_path answers the entries that the fast path cannot.
local function slow_path(q, key, s, clock, requests)
  if q.kind == RESET then return reset(key, s, clock) end
  return lib.answer(record.load(key, clock, s, s ~= '' and q.directory), q, requests, lib.charge)
end

-- charge admits units to every state.
function lib.charge(rec, q, sts, units)
  local charge, now = q.algorithm.charge, rec.now
  for i = 1, q.count do
    local st, limit = sts[i], q.limits[i]
    if st.begin == 0 then record.add(st) end
    charge(st, rec, limit, units)
    st.rate = rate.charged(now, st.last, st.rate, now)
    st.last, st.limit = now, min(limit, 1e12)
  end
  return true
end

-- beside is the fast path of one window when the record has other states too, or belongs to the home or a shard of a split
-- key. j is the index of the window's state. long says whether the record is patched. At a split key with held units, the slow
-- path decides.
local function beside(q, d, j, key, s, clock, requests, long)
  local at, kinds, lease_at, now, begin, areas, stored = d.at, d.kinds, d.lease, clock, d.head + 1, q.areas, 0
  local bound, offset, shards = nil, 0, 0
  local held, twin, outlast, last_charge, last_release = d.held -- twin: the index of the state of the window's own held units
  for i = 1, d.count do
    if i == lease_at then
      if unpack('>I6', s, at[i] + ENDING_AT) < clock then return end -- the slow path drops the lease record
    elseif i ~= j then
      local from = at[i]
      local last = unpack('>I6', s, from)
      if last + d.keep[i] < clock then return end -- the slow path drops the state
      if last > now then now = last end
      if held and kinds[i] > HOLDS then
        local units, charge, release = holds.beside(s, from, clock)
        if not units then return end
        if i == d.twins[j] then twin, offset, last_charge, last_release = i, units, charge, release end
      end
      if areas then
        local lives, slot = last + d.lives[i], d.slots[i]
        if lives > stored then stored = lives end
        if i < j then begin = begin + (slot and unpack('>I3', s, from + SLOTS_AT) * slot or d.counters[i]) end
      end
    end
  end
  if now > clock + YEAR then return end
  if held then
    if lease_at or q.shard then return end
    if twin and q.kind == SLIDE and last_release == 0 then
      outlast = offset -- they are charged when they lapse, so they end later than the log
    elseif twin then
      bound = q.limits[1] - offset
    end
  end
  if lease_at then
    if q.cost == 0 then return end
    bound, offset, shards = lease.summary(q, s, at[lease_at] + SUMMARY_AT, clock)
    if not bound then return end
  end
  if q.shard and (not bound or now > clock) then return end
  local from = at[j]
  local granted, calls, used, room, last, newest, fields, expires, moves =
    q.straight(q, 1, s, from, begin, clock, now, requests, bound, areas and '', outlast, long and key)
  if not granted then return end
  moves = moves and expires > stored
  if long then
    if moves then record.expire(key, expires, 'GT') end
  elseif fields and (not areas or from + #fields > #s) then -- the bytes before them stay as they are
    if areas and from + #fields > d.inline then return end
    call('SETRANGE', key, d.offsets[j], fields)
    if moves then record.expire(key, expires, 'GT') end
  elseif fields then
    record.store(key, s, sub(s, 1, from - 1) .. fields, expires, moves, false)
  end
  if held then
    if twin then last = holds.reported(q.kind, q.windows[1], d.limits[twin], last, last_charge, last_release) end
    return pack('>I4I7I6I6I6I6', layout.HELD * SHIFT, granted * SHIFT + calls, used + offset, room, last, newest), last
  end
  if not bound then
    if room == 0 then return pack('>I8I6I12I6', granted * SHIFT + calls, used, last, newest), last end
    return pack('>I8I6I6I6I6', granted * SHIFT + calls, used, room, last, newest), last
  end
  if q.shard then return pack('>BI7I6I12I6I2', layout.AT_SHARD, granted * SHIFT + calls, used + offset, last, newest, 0) end
  return pack('>BI3I7I6I12I6', layout.AT_HOME, shards * 256, granted * SHIFT + calls, used + offset, last, newest), last
end

local pieces = {} -- of the record being composed

-- together is the fast path of several windows if they are the record's only states and all requests are granted.
local function together(q, d, key, s, clock, requests)
  local n, at, begin, straight, rated, expires, moves = q.count, d.at, d.head + 1, q.straight, 0, 0, false
  local usages, granted, calls, used, _, last, newest, fields, ends, moved, area = ''
  for i = 1, n do
    granted, calls, used, _, last, newest, fields, ends, moved, area, begin =
      straight(q, i, s, at[i], begin, clock, clock, requests)
    if not granted or granted < requests then return end
    if calls > rated then rated = calls end
    if ends > expires then expires = ends end
    moves, pieces[i + 1], pieces[n + i + 1] = moves or moved, fields, area or ''
    usages = usages .. pack('>I6I12I6', used, last, newest)
  end
  if fields then
    pieces[1] = d.text
    local text = concat(pieces, '', 1, 2 * n + 1)
    if #text >= d.inline then return end
    record.store(key, s, text, expires, moves, true)
  end
  return pack('>I8c0', granted * SHIFT + rated, usages)
end

-- fast_path answers nearly all entries: those whose record does not exist yet, or has all states of the spec with unchanged
-- limits. Of a patched record it decides one log. Otherwise it returns nothing, and has written nothing. For one window it also
-- returns the newest admission that it reports; several windows it only decides by the clock. If it is given `front`, a number of
-- 7 bytes, the reply may begin with it, which saves a string; then the third result is true.
local function fast_path(q, key, s, clock, requests, front)
  local d, places = q.directory, q.places
  if s == '' then
    d, places = q.fresh, q.order
  elseif sub(s, 1, d.bytes) ~= d.text then
    d, places = spec.place(q, key, s)
    -- s may end within the areas. lib.entry reads the fields in it afterwards.
    if q.areas and #s >= max(d.head, layout.INLINE) and #s < d.inline then s = call('GETRANGE', key, '0', d.last) end
  end
  if not places or #s < d.head and s ~= '' then return end
  local long = q.areas and #s >= d.inline
  if long and q.kind ~= SLIDE then return end
  if q.count > 1 then return not long and places == q.order and not q.shard and together(q, d, key, s, clock, requests) end
  if d.count > 1 then return beside(q, d, places[1], key, s, clock, requests, long) end
  if q.shard then return end
  local granted, calls, used, room, last, newest, packed, expires, moves =
    q.straight(q, 1, s, d.at[1], d.head + 1, clock, clock, requests, nil, d.text, nil, long and key)
  if not granted then return end
  if long then
    if moves then record.expire(key, expires) end
  elseif packed then
    if #packed >= d.inline then return end
    record.store(key, s, packed, expires, moves, true)
  end
  if front then return pack('>I7I8I6I6I6I6', front, granted * SHIFT + calls, used, room, last, newest), last, true end
  if room == 0 then return pack('>I8I6I12I6', granted * SHIFT + calls, used, last, newest), last end
  return pack('>I8I6I6I6I6', granted * SHIFT + calls, used, room, last, newest), last
end

-- entry decides one request for one key. It returns the reply, which begins with the 7 bytes of `front` if that is given, and
-- the ms by which its windows were decided.
function lib.entry(q, key, clock, front)
  local s = call('GETRANGE', key, '0', q.last)
  local reply, newest, fronted = fast_path(q, key, s, clock, 1, front)
  local now = clock
  if not reply then
    reply, now = slow_path(q, key, s, clock, 1)
  elseif newest and newest > clock and s ~= '' then
    -- The newest admission is never earlier than the newest charge, but in a log with a grid it may be later.
    local d = q.directory
    for i = 1, d.count do now = i ~= d.lease and max(now, (unpack('>I6', s, d.at[i]))) or now end
  end
  return front and not fronted and pack('>I7', front) .. reply or reply, now
end

local replies, done = {}, 0

-- failure returns the reply for an entry that has failed, and so has charged nothing. A reset still deletes whatever is stored.
-- At a shard, a damaged record is deleted: the home still counts everything that it lent.
function lib.failure(key, text, why)
  local wrong
  why, wrong = record.explain(key, why)
  local known, q = pcall(spec.of, text)
  if wrong and known then
    if q.kind == RESET then return reset(key, '') end
    if q.shard and wrong == 'damaged' then call('UNLINK', key) end
  end
  return pack('>BI2', layout.FAILED, #why) .. why
end

-- answer_entries appends the replies to the entries after the first `done` ones.
local function answer_entries(keys, before, count, args, entries, clock)
  local q, requests, index
  while done < count do
    done = done + 1
    if entries == '' then
      requests, q = 1, q or spec.of(args[3])
    else
      index, requests = unpack('>I2I4', entries, done * 6 - 5)
      q = spec.of(args[index])
    end
    local key = keys[before + done]
    local s = call('GETRANGE', key, '0', q.last)
    replies[done + 1] = fast_path(q, key, s, clock, requests) or slow_path(q, key, s, clock, requests)
  end
end

function lib.decide(keys, args)
  local clock, entries, before, count = lib.clock_of(args[1]), args[2], 0, #keys
  if count == 0 then
    count = entries == '' and #args - 3 or #entries / 6
    keys, before = args, #args - count
  end
  replies[1], done = pack('>I6', clock), 0
  while done < count do
    local ok, why = pcall(answer_entries, keys, before, count, args, entries, clock)
    if not ok then -- the entry at index `done` failed
      local text = entries == '' and args[3] or args[unpack('>I2', entries, done * 6 - 5)]
      replies[done + 1] = lib.failure(keys[before + done], text, why)
    end
  end
  return concat(replies, '', 1, count + 1)
end
end)(lib)
;(function(...)
-- fast_holds.lua: the fast path of RL.RESERVE and RL.SETTLE, and of RL.ACQUIRE and RL.RELEASE. It decides the most common case:
-- one window of RL.SLIDE, or slots, and a record whose only states are the log of this window and its held units, all of which
-- are charged when they lapse, or all forgotten. It composes an inline record anew, and patches a longer one. It stores the
-- same bytes and gives the same answers as the slow path.
local lib = ...

local call, unpack, pack, sub, byte, format = redis.call, struct.unpack, struct.pack, string.sub, string.byte, string.format
local max, min = math.max, math.min
local layout, record, rate, slide, holds = lib.layout, lib.record, lib.rate, lib.slide, lib.holds
local SLIDE, CONCURRENCY, ENTRY, CELL = layout.SLIDE, layout.CONCURRENCY, layout.ENTRY_BYTES, layout.CELL_BYTES
local HEAD, NAME, SHIFT = layout.HEAD_BYTES, layout.NAME_BYTES, layout.SHIFT
local ONE, TWO = HEAD + NAME + 1, HEAD + 2 * NAME + 1 -- the index of the first field of a record with one state, and with two
local FIELDS, HELD = layout.FIELDS[SLIDE].bytes, layout.FIELDS[layout.HOLDS + SLIDE].bytes
local LAST = tostring(layout.INLINE + layout.INLINE_MORE - 1) -- the last byte of an inline record with two states
local NO_CELL = string.rep('\0', CELL)
local fast_holds = {}
lib.fast_holds = fast_holds

-- forms_of returns the forms that such a record can have, by directory, for a spec. A form has the directory (head), the size
-- below which the record is inline (inline), the indexes of the fields of the log and of the held units (log, held), false if
-- there are none, and the index of the first area (begin). Other specs have no forms.
local function forms_of(q)
  local log, held, forms = q.pairs, pack('>B', layout.HOLDS + q.kind) .. sub(q.pairs, 2), {}
  if q.kind ~= SLIDE and q.kind ~= CONCURRENCY or q.count > 1 or q.shard or q.limits[1] > 1e12 then return forms end
  local function form(count, names, log_at, held_at, begin)
    local head = count > 0 and pack('>BI2', layout.VERSION, count) .. names or ''
    forms[head] = { head = head, log = log_at, held = held_at, begin = begin,
      inline = layout.INLINE + (count > 1 and layout.INLINE_MORE or 0) }
    return forms[head]
  end
  form(0, '', false, false, 1)
  forms.log, forms.held = form(1, log, ONE, false, ONE + FIELDS), form(1, held, false, ONE, ONE + HELD)
  forms.log_held = form(2, log .. held, TWO, TWO + FIELDS, TWO + FIELDS + HELD)
  forms.held_log = form(2, held .. log, TWO + HELD, TWO, TWO + FIELDS + HELD)
  return forms
end

-- What read has read of a key's record:
--   form, s       its form, and the record, or its first bytes if it is long: not inline
--   was, ending   the last ms at which the record matters, and at which its log does; 0 without one
--   entries, area the indexes in the record at which the areas of the log and of the held units begin
--   text, cells   a string that has the cells, and the index in it of the first one
--   stored        the number of cells
--   forgets       whether the held units are forgotten when they lapse
--   count to soonest
--                 the fields of the held units, which the functions below change: count is cells in layout.lua, calls is
--                 rate, n is holds, units is charge or release, latest is charged or released, soonest is next, and the
--                 others have their names there
local form, s, long, was, ending, entries, area, text, cells = false, '', false, 0, 0, 0, 0, '', 0
local stored, forgets, count, slots, last, calls, n, units, lapsed, latest, soonest = 0, false, 0, 0, 0, 0, 0, 0, 0, 0, 0

-- matters_until returns the last ms at which units with a deadline matter.
local function matters_until(q, deadline)
  if forgets then return deadline - 1 end
  return slide.dated(deadline, q.limits[1], q.windows[1]) + q.windows[1]
end

-- read reads a key's record, for units that are forgotten when they lapse or not. It returns false if the record has none of the
-- forms, or a state or cell has ended.
local function read(q, key, clock, release)
  local window = q.windows[1]
  q.forms = q.forms or forms_of(q)
  if not q.forms.log then return false end
  s = call('GETRANGE', key, '0', LAST)
  form = q.forms[sub(s, 1, HEAD + NAME * (byte(s, HEAD) or 0))]
  if not form or #s < form.begin - 1 then return false end
  local log, held, stop = form.log, form.held, form.begin
  long, was, ending, entries, area, text, cells = #s >= form.inline, 0, 0, stop, stop, s, stop
  stored, forgets, count, slots, last, calls, n, units, lapsed, latest, soonest = 0, release, 0, 0, 0, 0, 0, 0, 0, 0, 0
  if log then
    local charged, _, length, ring, _, newest = unpack('>I6I4I3I3I15I6', s, log)
    ending, stop = newest + window, stop + ring * ENTRY
    if charged > clock or ending < clock or length == 0 or length ~= ring and not long then return false end
    was = ending
  end
  if not held then return long or stop == #s + 1 end
  local others, other
  last, calls, count, slots, n, units, others, lapsed, latest, other, soonest = unpack('>I6I4I3I3I3I6I6I4I6I6I6', s, held)
  if release then units, others, latest, other = others, units, other, latest end
  if last > clock or count > 0 and soonest <= clock or others + other > 0 or units > layout.UNITS then return false end
  if log and log < held then area = stop else entries = area + slots * CELL end
  if count > 0 then was = max(matters_until(q, latest), was) end
  cells, stored = area, count
  if not long then return count == slots and count > 0 and stop + count * CELL == #s + 1 end
  if count > slots or slots > layout.CELLS then return false end
  if count > 0 and area + count * CELL > #s + 1 then
    text, cells = call('GETRANGE', key, format('%d', area - 1), format('%d', area + count * CELL - 2)), 1
  end
  return #text >= count * CELL
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
local function cell_of(deadline, had, in_cell) return pack(forgets and '>I6I12I3' or '>I6I6I9', deadline, had, in_cell) end

-- patch writes a cell and the fields of the held units into a long record. The cell belongs at index `at` of text. It takes the
-- place of the one that is there, or is inserted if there is none for its deadline. An empty cell removes it.
local function patch(key, at, there, cell)
  if cell == '' or not there then cell = cell .. sub(text, at + (there and CELL or 0), cells + stored * CELL - 1) end
  if count < stored then cell = cell .. NO_CELL end
  call('SETRANGE', key, format('%d', form.held - 1), fields())
  if call('SETRANGE', key, format('%d', area + at - cells - 1), cell) < area + slots * CELL - 1 then -- the record's length
    record.damaged(key, 'it ends within its areas')
  end
end

local ANY = 2 ^ 50 -- in place of a limit: any cost fits

-- The spec that ask passes on, see spec.lua.
local asked = { windows = {}, limits = {}, needs = 0, cost = 0, only_by_clock = true }

-- ask has the log, which may not exist yet, decided by slide.straight, which also writes it if the record is long. It asks for
-- the wanted units, and charges cost of them. bound is nil, ANY, or what the held units leave of the limit.
local function ask(q, key, clock, wanted, cost, bound)
  if q.kind == CONCURRENCY then -- nothing is charged
    if bound >= wanted then return 1, 0, 0, 0, 0 end
    return
  end
  asked.windows, asked.limits, asked.needs, asked.cost = q.windows, q.limits, wanted, cost
  local log = form.log
  return slide.straight(asked, 1, log and s or '', log, entries, clock, clock, 1, bound, nil, units, long and log and key)
end

-- ends returns the last ms at which the first cells that have `over` units count in the window of a log.
local function ends(q, over, newest)
  local from, till = cells, 0
  while over > 0 do
    local deadline, more = unpack('>I6I6', text, from)
    from, till, over = from + CELL, deadline, over - more
  end
  return max(matters_until(q, till), newest + q.windows[1])
end

-- reported returns the ms that a reply reports as the newest admission of a log whose newest one is given.
local function reported(q, newest)
  return holds.reported(q.kind, q.windows[1], q.limits[1], newest, forgets and 0 or latest, forgets and latest or 0)
end

-- store writes an inline record, which lives until the ms expires. It reports whether the new record is still inline, and
-- writes nothing if it is not.
local function store(key, to, now, expires)
  if #now >= to.inline then return false end
  record.store(key, s, now, expires, expires ~= was, true)
  return true
end

-- reserve holds units until the deadline `till`, if there is room. It returns the reply of an entry, see decide.lua. It returns
-- nothing, and has written nothing, if the slow path has to decide.
function fast_holds.reserve(q, till, release, key, clock)
  if not read(q, key, clock, release) or n >= holds.MOST then return end
  local most, bound = q.limits[1] - q.cost
  if release then bound = q.limits[1] - units elseif units > most then bound = ANY end
  local granted, rated, used, room, newest = ask(q, key, clock, q.cost, 0, bound)
  if not granted or most < 0 then return end
  used = used + units
  if bound == ANY then granted, room = 0, ends(q, units - most, newest) + 1 end
  if granted == 0 then
    newest = reported(q, newest)
    if not form.held then return pack('>I8I6I6I6I6', rated, used, room, newest, 0) end
    return pack('>I4I7I6I6I6I6', layout.HELD * SHIFT, rated, used, room, newest, 0)
  end
  local at, had, in_cell = seek(till)
  local there = in_cell > 0
  if long and not there and count == slots then return end -- there is no room for a cell, or no state of held units
  local cell = cell_of(till, had + q.cost, in_cell + 1)
  calls = rate.charged(clock, last, calls, clock)
  last, n, units, latest = clock, n + 1, units + q.cost, max(latest, till)
  if not there then count, soonest = count + 1, count > 0 and min(soonest, till) or till end
  local expires = max(matters_until(q, latest), ending)
  if long then
    patch(key, at, there, cell)
    if expires ~= was then record.expire(key, expires) end
  else
    local to, now = form
    slots = count
    if form.held then
      now = sub(s, 1, form.held - 1) .. fields() .. sub(s, form.held + HELD, at - 1) .. cell .. sub(s, at + (there and CELL or 0))
    else
      to = form.log and q.forms.log_held or q.forms.held
      now = to.head .. sub(s, #form.head + 1, form.begin - 1) .. fields() .. sub(s, form.begin) .. cell
    end
    if not store(key, to, now, expires) then return end
  end
  return pack('>I4I7I6I12I6', layout.HELD * SHIFT, SHIFT + rated, used, reported(q, newest), 0)
end

-- settle ends a hold with the deadline `till`, and charges its final cost. It returns false, and has written nothing, if the
-- slow path has to decide.
function fast_holds.settle(q, till, release, key, clock, cost)
  if cost > q.cost or not read(q, key, clock, release) or long and cost > 0 and not form.log then return false end
  local at, had, in_cell = seek(till)
  if in_cell == 0 or had < q.cost or (in_cell == 1) ~= (had == q.cost) or n < in_cell or units < had then return false end
  local log_fields, log_area, cell, to = '', '', '', form
  if cost > 0 then
    local granted, newest, lasts, _
    granted, _, _, _, newest, _, log_fields, lasts, _, log_area = ask(q, key, clock, cost, cost, ANY)
    if not granted then return false end
    ending = lasts or newest + q.windows[1]
  elseif form.log then
    log_fields, log_area = sub(s, form.log, form.log + FIELDS - 1), sub(s, entries, entries < area and area - 1 or -1)
  elseif count == 1 and in_cell == 1 then
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
  local expires = ending
  if count > 0 then expires = max(ending, matters_until(q, latest)) end
  if long then
    patch(key, at, true, cell)
    if expires ~= was then record.expire(key, expires) end
    return true
  end
  slots = count
  if count == 0 then
    to = q.forms.log
    return store(key, to, to.head .. log_fields .. log_area, expires)
  end
  local left = sub(text, cells, at - 1) .. cell .. sub(text, at + CELL, cells + stored * CELL - 1)
  if form.log and entries < area then return store(key, to, form.head .. log_fields .. fields() .. log_area .. left, expires) end
  if log_fields ~= '' then to = q.forms.held_log end
  return store(key, to, to.head .. fields() .. log_fields .. left .. log_area, expires)
end
end)(lib)
;(function(...)
-- admit.lua: the function rl_admit answers one request with an id. The request is charged once, or holds units that are
-- charged later. A request with a known id gets the same reply as the first one.
--
-- KEYS[1] the stored key
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] the spec, see spec.lua; that of RL.ACQUIRE has the kind CONCURRENCY, 1 bucket, and one window of 0 ms whose limit is
--         the number of slots
-- ARGV[3] the fields of the id: its kind 1 byte, see ids.lua; its digest 16; for how many ms units are held at most 5; 1 if
--         units that lapse are forgotten, 0 if they are charged 1
-- returns a byte 0, the clock 6, the reply of one entry, see decide.lua; or if the id is known, a byte 1, the length of a spec
--         1, the spec that the reply is about, and then what was returned at first
-- Cost: as rl_decide, and one Redis call to read the id and one to write it.
local lib = ...

local unpack, pack, sub, byte = struct.unpack, struct.pack, string.sub, string.byte
local layout, record, spec, ids, holds = lib.layout, lib.record, lib.spec, lib.ids, lib.holds
local fast_holds, id, ONCE, LEASE = lib.fast_holds, ids.id, ids.ONCE, ids.LEASE
local by_id = {}
lib.by_id = by_id

-- The fields in memory that ids.lua does not have, unless its id is one of ONCE: for how many ms units are held,
-- and 1 if units that lapse are forgotten.
local ttl, release = 0, 0

-- open reads the fields of an id, and what is stored about the id.
function by_id.open(text, key, clock)
  local kind, field, digest = unpack('>Bc2c14', text)
  if kind ~= ONCE then ttl, release = unpack('>I5B', text, 18) end
  ids.open(key, kind, field, digest, clock)
end

-- take takes the place of lib.charge: it holds units, or charges them if the id is one of ONCE.
function by_id.take(rec, q, states, units)
  ids.admits(rec.now)
  if id.kind == ONCE then return lib.charge(rec, q, states, units) end
  holds.admits(q, states)
  id.till = holds.deadline(rec.now, ttl)
  holds.add(rec, q, id.till, units, release == 1, states)
  return true
end

-- first_spec returns the spec of the first request with the id, which is known.
function by_id.first_spec() return spec.of(sub(id.found, 2, 1 + byte(id.found))) end

-- renew extends a lease of RL.ACQUIRE: from now on it lasts for `lasts` ms. It returns the lease's spec, with `slots` as its
-- limit if that is given, or nothing if the lease has ended.
function by_id.renew(rec, lasts, slots)
  if not id.found then return end
  local q = by_id.first_spec()
  if slots then q = spec.of(sub(q.text, 1, -6) .. pack('>I5', slots)) end
  if not holds.still_held(q, id.till, q.cost, true) then return end
  local was, till = record.ends(), holds.deadline(rec.now, lasts)
  holds.add(rec, q, till, q.cost, true) -- before the old one is removed: a window without holds counts lapsed ones from 0
  holds.remove(rec, q, id.till, q.cost, true)
  record.save(was)
  id.ttl = lasts
  ids.keep(rec.now, till, q.prefixed, '')
  return q
end

-- again answers a request whose id is known.
function by_id.again(rec, q, clock)
  if not id.found then return end
  if id.kind ~= LEASE then return '\1' .. id.found end
  local held, states, uses = by_id.renew(rec, ttl, q.limits[1]), {}, {}
  if not held then return end
  local lapsed = rec.lapsed
  holds.weigh(ids.record(rec.clock), held, states, uses, false)
  local st = states[1]
  return '\1' .. held.prefixed .. pack('>BI6BI3I4I3I6I6I6I6', 0, clock, layout.HELD, lapsed, 1,
    lib.rate.at(rec.now, st.held.last, st.held.rate), uses[1] - held.cost, 0, holds.reported_last(st), 0)
end

-- remember stores the reply to a request, if it was granted.
function by_id.remember(q, now, reply)
  if byte(reply, -4 - 24 * q.count) == 0 then return end -- the last byte of granted
  if id.kind == ONCE then id.till = now + q.longest + 1 else id.ttl, id.release, id.settled = ttl, release, 0 end
  ids.keep(now, id.till, q.prefixed, id.kind ~= LEASE and reply or '')
end

-- admit_one answers one request with the spec `spec_text` and the fields `text` of its id.
function lib.admit_one(key, clock, spec_text, text)
  local q, reply, now = spec.of(spec_text)
  if q.cost == 0 then return pack('>I7', clock) .. lib.answer(record.open(key, clock), q, 1, lib.charge) end
  by_id.open(text, key, clock)
  if not id.found and id.last <= clock and not ids.full() then
    if id.kind == ONCE then
      reply, now = lib.entry(q, key, clock, clock)
    else
      id.till = holds.deadline(clock, ttl)
      reply, now = fast_holds.reserve(q, id.till, release == 1, key, clock), clock
      if reply then reply = pack('>I7', clock) .. reply end
    end
  end
  if not reply then
    local rec = ids.record(clock)
    local known = by_id.again(rec, q, clock)
    if known then return known end
    reply, now = lib.answer(rec, q, 1, by_id.take)
    reply = pack('>I7', clock) .. reply
  end
  by_id.remember(q, now, reply)
  return reply
end
lib.admit = record.guarded(function(keys, args) return lib.admit_one(keys[1], lib.clock_of(args[1]), args[2], args[3]) end)
end)(lib)
;(function(...)
-- settle.lua: the end and the renewal of holds. The function rl_settle ends a hold and charges its final cost, for RL.SETTLE;
-- RL.RELEASE uses it with a cost of 0. Renewals are part of a call of rl_each.
--
-- KEYS[1] the stored key
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] kind of the id 1 byte, see ids.lua, its digest 16, cost 6
-- returns settled 1 (0: no, 1: by this call, 2: by an earlier call with the same cost), units charged 6, given back 6, charged
--         beyond those held 6, the number of lapsed holds that this call removed 3
-- Cost: two Redis calls to read, and usually two to write.
local lib = ...

local unpack, pack, max = struct.unpack, struct.pack, math.max
local record, ids, id, holds, by_id, fast_holds = lib.record, lib.ids, lib.ids.id, lib.holds, lib.by_id, lib.fast_holds
-- The most units of a window, and of a window of RL.COUNTER, that the stored fields can count.
local COUNTABLE, IN_A_COUNTER = 2 ^ 45, 2 ^ 40 - 1

local function reply(settled, cost, units, lapsed)
  return pack('>BI6I6I6I3', settled, cost, max(units - cost, 0), max(cost - units, 0), lapsed)
end

-- ended stores that the hold of an id has ended. The id of a lease, or of a multi-key request, is forgotten.
local function ended(kind, now)
  if kind == ids.LEASE then ids.drop(now) else ids.keep(now, holds.deadline(now, id.ttl), id.found, '') end
end

-- settle_one ends a hold; asked is ARGV[2] of rl_settle.
function lib.settle_one(key, clock, asked)
  local kind, field, digest, cost = unpack('>Bc2c14I6', asked)
  ids.open(key, kind, field, digest, clock)
  if not id.found then return reply(0, 0, 0, 0) end
  local q, release, settled = by_id.first_spec(), id.release == 1, id.settled
  id.settled = cost + 1 -- is stored by ended, if this call settles the hold; 0 means that it is out
  if settled == 0 and id.last <= clock and fast_holds.settle(q, id.till, release, key, clock, cost) then
    ended(kind, clock)
    return reply(1, cost, q.cost, 0)
  end
  local rec = ids.record(clock)
  if not id.found then return reply(0, 0, 0, 0) end
  local was = record.ends()
  if settled > 0 then
    if cost + 1 ~= settled then return reply(0, 0, 0, 0) end
    return reply(2, cost, q.cost, 0)
  end
  if not holds.still_held(q, id.till, q.cost, release) then return reply(0, 0, 0, 0) end
  local states, uses = {}, {}
  holds.weigh(rec, q, states, uses, false)
  local most = q.kind == lib.layout.COUNTER and IN_A_COUNTER or COUNTABLE
  for i = 1, q.count do
    if cost > q.cost and uses[i] - q.cost + cost > most then error({ err = 'ERR cost exceeds what this key can count' }) end
  end
  if cost > 0 then lib.charge(rec, q, states, cost) end
  holds.remove(rec, q, id.till, q.cost, release)
  record.save(was)
  ended(kind, rec.now)
  return reply(1, cost, q.cost, rec.lapsed)
end
lib.settle = record.guarded(function(keys, args) return lib.settle_one(keys[1], lib.clock_of(args[1]), args[2]) end)

-- renew_one extends a lease of RL.ACQUIRE: asked is the first argument of a renewal in a call of rl_each. It returns 1 byte, 1 if
-- the lease was renewed, 0 if it had ended; and the number of lapsed holds that it removed 3.
function lib.renew_one(key, clock, asked)
  local field, digest, ttl = unpack('>c2c14I5', asked)
  ids.open(key, ids.LEASE, field, digest, clock)
  local rec = ids.record(clock)
  return by_id.renew(rec, ttl) and pack('>BI3', 1, rec.lapsed) or pack('>BI3', 0, 0)
end
end)(lib)
;(function(...)
-- each.lua: the function rl_each answers several requests that have ids, in order. Each is answered as by a call of rl_admit
-- or rl_settle, or renews a lease.
--
-- KEYS    the stored key of each request, unless they are at the end of ARGV, as for rl_decide
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] and on: per request two arguments: those of rl_admit; the one of rl_settle and an empty one; or for a renewal the
--         digest of the id 16 bytes and for how many ms the lease lasts from now on 5, and 'renew'
-- returns per request the length of the reply 2 bytes, and the reply; or if the request failed, which charges nothing, the
--         length of the error plus 32768 2, and the text of the error
-- Cost: the sum of the single calls, with one call of TIME in all.
local lib = ...

local pack = struct.pack
local FAILED = 32768

function lib.each(keys, args)
  local clock, before, count, out = lib.clock_of(args[1]), 0, (#args - 1) / 2, {}
  if #keys == 0 then
    count = (#args - 1) / 3
    keys, before = args, 2 * count + 1
  end
  for i = 1, count do
    local key, kind = keys[before + i], args[2 * i + 1]
    local f = kind == '' and lib.settle_one or kind == 'renew' and lib.renew_one or lib.admit_one
    local ok, reply = pcall(f, key, clock, args[2 * i], kind)
    if not ok then reply = lib.record.explain(key, reply) end
    out[2 * i - 1], out[2 * i] = pack('>I2', #reply + (ok and 0 or FAILED)), reply
  end
  return table.concat(out)
end
end)(lib)
;(function(...)
-- all.lua: the function rl_all answers a multi-key request: either all of its requests are granted, or none is.
--
-- KEYS    the stored keys, unless they are at the end of ARGV, as for rl_decide
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] and on: a spec for each key, see spec.lua
-- returns the clock 6 bytes, 1 if all were granted 1, then for each key the reply of an entry, see decide.lua. If not all were
--         granted, nothing is charged, and granted is 1 for each request that there was room for.
-- Cost: as rl_decide, but each record is read twice.
local lib = ...

local unpack, pack = struct.unpack, struct.pack
local record, spec = lib.record, lib.spec

-- tried, in place of lib.charge, raises an error if a charge could not be stored: if the record has no room for a new state, or
-- is shorter than it should be. What it adds to the record in memory is not saved.
local function tried(rec, q, states)
  for i = 1, q.count do
    if states[i].begin == 0 then record.add(states[i]) end
  end
  if not rec.inline and redis.call('STRLEN', rec.key) < rec.bytes then record.damaged(rec.key, 'it ends within its areas') end
  return false
end

-- ask returns the reply of an entry that charges nothing, and whether it could be granted.
local function ask(key, clock, text)
  local q = spec.of(text)
  local reply = lib.answer(record.open(key, clock), q, 1, tried)
  return reply, unpack('>I4', reply, #reply - 6 - 24 * q.count) == 1
end

-- charge returns the reply of an entry that can be granted.
local function charge(key, clock, text) return (lib.entry(spec.of(text), key, clock)), true end

function lib.all(keys, args)
  local clock, before, count, all, replies = lib.clock_of(args[1]), 0, #keys, true, {}
  if count == 0 then
    count = (#args - 1) / 2
    keys, before = args, count + 1
  end
  for _, decide in ipairs({ ask, charge }) do
    for i = 1, all and count or 0 do
      local key, text = keys[before + i], args[i + 1]
      local ok, reply, granted = pcall(decide, key, clock, text)
      all, replies[i] = all and ok and granted, ok and reply or lib.failure(key, text, reply)
    end
  end
  return pack('>I6B', clock, all and 1 or 0) .. table.concat(replies)
end
end)(lib)
;(function(...)
-- inspect.lua: the function rl_inspect reports each state of a key that can still matter, for RL.INSPECT. It changes nothing,
-- but a replica refuses it like all other functions, because a replica's counts may be old.
--
-- KEYS[1] the stored key
-- ARGV[1] the clock in ms; empty: the node's own
-- returns one string: 1 byte, 1 if the key's other shards have to be asked as well; then per state: kind 1 byte, window 5,
--         buckets 2, used 6, limit 5, rate 3, the key's time to live in ms 6, units held 6, holds 3, lapsed holds 4.
--         For a rate, window is the ms in which its limit drains, and buckets is 0. For leases of RL.ACQUIRE, window is 0.
-- Cost: O(states), one search per log.
local lib = ...

local pack, max, min, floor, concat = struct.pack, math.max, math.min, math.floor, table.concat
local record, rate, HOLDS = lib.record, lib.rate.at, lib.layout.HOLDS
local NOTHING = { last = -1, rate = 0, charge = 0, release = 0, holds = 0, lapsed = 0 } -- in place of held units

lib.inspect = record.guarded(function(keys, args)
  local clock, key = lib.clock_of(args[1]), keys[1]
  local rec = record.open(key, clock)
  local ending, now, out = record.ends(), rec.now, { '\0' }
  local function matters(st) return st and lib.algorithms[st.kind].matters_until(st) >= now end
  local function row(st, kind, window, buckets, used, held)
    local h = held or NOTHING
    out[#out + 1] = pack('>BI5I2I6I5I3I6I6I3I4', kind, window, buckets, used, h.last < st.last and st.limit or h.limit,
      max(rate(now, st.last, st.rate), rate(now, h.last, h.rate)), ending + 1 - clock, h.charge + h.release, h.holds, h.lapsed)
  end
  for i = 1, rec.count do
    local st = rec[i]
    local kind, window, buckets = st.kind, st.window, st.buckets
    if st == rec.lease then
      out[1] = '\1'
    elseif kind > HOLDS and st.holds > 0 and not matters(record.find(kind - HOLDS, buckets, window)) then
      row(st, kind - HOLDS, window, buckets, 0, st)
    elseif kind < HOLDS and matters(st) then
      local used, held = lib.algorithms[kind].usage(st, rec, false), rec.held and record.find(HOLDS + kind, buckets, window)
      if window == 0 then window, buckets = min(floor(st.limit * st.interval / 1000000), 2 ^ 40 - 1), 0 end
      row(st, kind, window, buckets, used, held)
    end
  end
  return concat(out)
end)
end)(lib)
return lib
end
local made
redis.register_function({ function_name = 'rl_decide_313c8afc5a11', flags = { 'allow-cross-slot-keys' }, callback = function(keys, args)
  made = made or library()
  return made.decide(keys, args)
end })
redis.register_function({ function_name = 'rl_admit_313c8afc5a11', flags = { 'allow-cross-slot-keys' }, callback = function(keys, args)
  made = made or library()
  return made.admit(keys, args)
end })
redis.register_function({ function_name = 'rl_settle_313c8afc5a11', flags = { 'allow-cross-slot-keys' }, callback = function(keys, args)
  made = made or library()
  return made.settle(keys, args)
end })
redis.register_function({ function_name = 'rl_each_313c8afc5a11', flags = { 'allow-cross-slot-keys' }, callback = function(keys, args)
  made = made or library()
  return made.each(keys, args)
end })
redis.register_function({ function_name = 'rl_all_313c8afc5a11', flags = { 'allow-cross-slot-keys' }, callback = function(keys, args)
  made = made or library()
  return made.all(keys, args)
end })
redis.register_function({ function_name = 'rl_inspect_313c8afc5a11', flags = { 'allow-cross-slot-keys' }, callback = function(keys, args)
  made = made or library()
  return made.inspect(keys, args)
end })
redis.register_function({ function_name = 'rl_lend_313c8afc5a11', flags = { 'allow-cross-slot-keys' }, callback = function(keys, args)
  made = made or library()
  return made.lend(keys, args)
end })
redis.register_function({ function_name = 'rl_forget_313c8afc5a11', flags = { 'allow-cross-slot-keys' }, callback = function(keys, args)
  made = made or library()
  return made.forget(keys, args)
end })
redis.register_function({ function_name = 'rl_recall_313c8afc5a11', flags = { 'allow-cross-slot-keys' }, callback = function(keys, args)
  made = made or library()
  return made.recall(keys, args)
end })
redis.register_function({ function_name = 'rl_take_313c8afc5a11', flags = { 'allow-cross-slot-keys' }, callback = function(keys, args)
  made = made or library()
  return made.take(keys, args)
end })
