-- record.lua: the stored value of one client key, shared by all scripts.
--
-- One string holds every state of the key: a head of state headers, then one area
-- per state, in the order of the headers, but those of notes last. Integers are unsigned and big-endian.
--
--   head    version 1 byte, length of the head 3 bytes, headers
--   header  kind 1, buckets 2, window 5, limit 5, last 6, before 2, during 2,
--           then the fields that the kind adds (see ADDS)
--
-- window, last: ms; limit: as last charged; before, during: charging calls in the
-- second before that of last, and in it. A record under WHOLE bytes is read and
-- written in one piece. A longer one is patched in place, so that a decision costs
-- the same however long a log is; it is rebuilt only when an area must grow.
--
-- Cost: two calls of Redis per admission for a short record, one per denial.

-- A state in memory is an array; these are its indices.
local KIND, BUCKETS, WINDOW, LIMIT, LAST, BEFORE, DURING = 1, 2, 3, 4, 5, 6, 7
local FIRST, COUNT, CAP, BASE, TOTAL, NEWEST = 8, 9, 10, 11, 12, 13
local AREA, OFFSET = 14, 15                -- the area's bytes, if in memory; where it begins
local PATCH, PATCHED, GROW = 16, 17, 18   -- bytes to write, and where; an entry for which there is no slot
-- What used finds out, for the functions asked after it: of a log
local GONE, LIVE, FROM, BLOCK = 19, 20, 21, 22 -- entries that count no more; running total before the first that does; what entry read last
-- and of a counter, see counter.lua.
local K, WAS, OLDEST, REST, HELD, NOW = 19, 20, 21, 22, 23, 24

local min, max = math.min, math.max

-- One table of functions per kind, see slide.lua.
local algorithms = {}

local HEADER = '>BI2I5I5I6I2I2'
local HEADER_BYTES = 23
local ADDS = {
  [SLIDE] = '>I3I3I3I6I6I6', -- ring: first slot, entries, slots; running total before the first and after the last; ms of the last
  [COUNTER] = '>I6',         -- units in all counters; area: buckets+1 counters of 5 bytes, sub-window k in slot k % (buckets+1)
  [FIXED] = '>I6',           -- units in the window of last
  [THROTTLE] = '>I6I3I8',    -- when all has drained: ms, ns of it; ns between units
  [HOME] = '>I3I6I3c40',     -- bytes of the note, last ms at which it matters, bytes of its area; its front: see split.lua
  [PART] = '>I3I6I3c40',
}
local ADD_BYTES = { [SLIDE] = 27, [COUNTER] = 6, [FIXED] = 6, [THROTTLE] = 17, [HOME] = 52, [PART] = 52 }

local function area_bytes(st)
  if st[KIND] == SLIDE then return st[CAP] * ENTRY end
  if st[KIND] == COUNTER then return (st[BUCKETS] + 1) * 5 end
  if st[KIND] >= HOME then return st[CAP] end
  return 0
end

-- state returns one without admissions, of a key that has none of its name.
local function state(kind, buckets, window, bytes)
  return { kind, buckets, window, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, bytes, false, false, false, false, 0, 0, false, 0, 0, 0 }
end

-- The last ms at which a state can matter.
local function ends(st)
  local window = st[WINDOW]
  if st[KIND] == SLIDE then return st[NEWEST] + window end
  if st[KIND] == COUNTER then
    local n = st[BUCKETS]
    return math.ceil((floor(st[LAST] * n / window) + n + 1) * window / n) - 1
  end
  if st[KIND] == FIXED then return (floor(st[LAST] / window) + 1) * window - 1 end
  if st[KIND] >= HOME then return st[COUNT] end
  return st[COUNT] > 0 and st[FIRST] or st[FIRST] - 1
end

-- read returns the beginning of a key's record, mostly all of it.
local function read(key) return call('GETRANGE', key, '0', PREFIX) end

-- place notes that a state's area begins at offset in s, takes it into memory if the record is whole, and returns
-- where it ends.
local function place(rec, s, st, offset)
  st[OFFSET] = offset
  offset = offset + area_bytes(st)
  if rec.whole then st[AREA] = sub(s, st[OFFSET] + 1, offset) end
  return offset
end

-- load reads a key's record, of which s is the beginning: states holds its states, whole tells that their
-- areas are in memory too, now is the ms that every window of the key goes by.
local function load(key, clock, s)
  local rec = { key = key, states = {}, now = clock, whole = true }
  if s == '' then return rec end
  local version, length = unpack('>BI3', s)
  if version ~= 1 then error({ err = 'ERR stored key is not a record of this version' }) end
  if #s >= WHOLE then
    local piece = piece_of(length)
    if #s < piece then s = call('GETRANGE', key, '0', piece - 1) end
    rec.whole = #s < piece
  end
  local at, offset, i, notes = 5, length, 0, nil
  while at <= length do
    local kind, buckets, window, limit, last, before, during = unpack(HEADER, s, at)
    local first, count, cap, base, total, newest = unpack(ADDS[kind], s, at + HEADER_BYTES)
    at = at + HEADER_BYTES + ADD_BYTES[kind]
    -- All indices at once: a table that grows is made anew several times.
    local st = { kind, buckets, window, limit, last, before, during, first, count, cap, base, total, newest,
      false, 0, false, false, false, 0, 0, false, 0, 0, 0 }
    if kind < HOME then
      offset = place(rec, s, st, offset)
    else
      notes = notes or {}
      notes[#notes + 1] = st
    end
    if last > rec.now then rec.now = last end
    i = i + 1
    rec.states[i] = st
  end
  if notes then
    for _, st in ipairs(notes) do offset = place(rec, s, st, offset) end
  end
  return rec
end

local function find(rec, kind, window, buckets)
  for _, st in ipairs(rec.states) do
    if st[KIND] == kind and st[WINDOW] == window and st[BUCKETS] == buckets then return st end
  end
end

-- area returns a state's area, read in one piece if it is not in memory.
local function area(rec, st)
  local s = st[AREA]
  if not s then
    s = call('GETRANGE', rec.key, st[OFFSET], st[OFFSET] + area_bytes(st) - 1)
    if st[PATCH] then
      local at = st[PATCHED] - st[OFFSET]
      s = sub(s, 1, at) .. st[PATCH] .. sub(s, at + #st[PATCH] + 1)
    end
    st[AREA] = s
  end
  return s
end

local function header(st)
  return pack(HEADER, st[KIND], st[BUCKETS], st[WINDOW], st[LIMIT], st[LAST], st[BEFORE], st[DURING])
    .. pack(ADDS[st[KIND]], st[FIRST], st[COUNT], st[CAP], st[BASE], st[TOTAL], st[NEWEST])
end

local function head(states)
  local hs = {}
  for i, st in ipairs(states) do hs[i] = header(st) end
  local s = table.concat(hs)
  return pack('>BI3', 1, #s + 4) .. s
end

-- linear returns a log's entries in order, the one without a slot at the end.
local function linear(rec, st)
  local s, first, n, cap, grow = area(rec, st), st[FIRST], st[COUNT], st[CAP], st[GROW]
  if grow then n = n - 1 end
  if first + n <= cap then
    s = sub(s, first * ENTRY + 1, (first + n) * ENTRY)
  else
    s = sub(s, first * ENTRY + 1) .. sub(s, 1, (first + n - cap) * ENTRY)
  end
  return grow and s .. grow or s
end

-- rebuild writes a record anew, without the states that can no longer matter. In a
-- record too long for one piece, logs get an eighth of room to grow.
local function rebuild(rec, clock, expires)
  local live, areas, length, bytes = {}, {}, 4, 0
  for _, st in ipairs(rec.states) do
    if ends(st) >= clock then
      live[#live + 1] = st
      if st[KIND] == SLIDE then
        areas[#live] = linear(rec, st)
        st[FIRST], st[CAP] = 0, st[COUNT]
      else
        areas[#live] = area(rec, st)
      end
      length, bytes = length + HEADER_BYTES + ADD_BYTES[st[KIND]], bytes + #areas[#live]
    end
  end
  if length + bytes >= piece_of(length) then
    for i, st in ipairs(live) do
      if st[KIND] == SLIDE then
        local room = floor(st[COUNT] / 8) + 8
        st[CAP] = st[COUNT] + room
        areas[i] = areas[i] .. string.rep('\0', room * ENTRY)
      end
    end
  end
  local notes = ''
  for i, st in ipairs(live) do
    if st[KIND] >= HOME then notes, areas[i] = notes .. areas[i], '' end
  end
  call('SET', rec.key, head(live) .. table.concat(areas) .. notes, 'PXAT', expires)
end

-- save writes what was charged. The key lives until its last state can matter no more.
local function save(rec, clock)
  local expires, grow = 0, rec.whole
  for _, st in ipairs(rec.states) do
    expires = max(expires, ends(st))
    grow = grow or st[GROW] or not st[OFFSET] or st[KIND] == SLIDE and st[CAP] > 256 and st[COUNT] * 4 < st[CAP]
  end
  local text = text_of(expires)
  if grow then return rebuild(rec, clock, text) end
  call('SETRANGE', rec.key, '0', head(rec.states))
  for _, st in ipairs(rec.states) do
    if st[PATCH] then call('SETRANGE', rec.key, st[PATCHED], st[PATCH]) end
  end
  call('PEXPIREAT', rec.key, text)
end
