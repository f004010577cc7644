-- record.lua: reads and writes the stored record of one client key, and finds states in it. schema.lua has the format.
--
-- The slow path uses this file as follows:
--   local rec = record.open(key, clock)      reads the record into memory: load checks it and reads the fields at the
--                                            offsets of its directory, which directory_of computes and caches
--   local was = record.ends()                the last ms at which the stored record matters
--   local st = record.find(kind, 1, window)  a state; record.add(st) adds a new one
--   ...                                      an algorithm changes st, and reads its area with record.bytes
--   record.save(was)                         writes an inline record in one piece (compose, store), and of a patched
--                                            one the directory, the fields, and the bytes of areas that have changed
--                                            (patch)
-- The fast path does not load the record: it reads fields at the directory's offsets, and writes with store. A value
-- that no function writes raises the error of record.damaged, which fails the entry and changes nothing.
--
-- Only one record is in memory at a time. Its tables are reused, because new ones for each entry cost time to create
-- and to collect. load sets every field that is read later.
local lib = ...

local call, unpack, pack = redis.call, struct.unpack, struct.pack
local sub, format, concat, max = string.sub, string.format, table.concat, math.max
local schema = lib.schema
local HEAD, NAME, STATE, ENTRY = schema.HEAD_BYTES, schema.NAME_BYTES, schema.STATE_BYTES, schema.ENTRY_BYTES
local HOME, SHARD, ADVANCES = schema.HOME, schema.SHARD, schema.ADVANCES
local algorithms = lib.algorithms
local STATES, YEAR, HOLDS, LINGER = schema.STATES, schema.YEAR, schema.HOLDS, schema.LINGER
-- bytes of a record from which on it is not rewritten to drop or to add a state, if that can be avoided
local LONG = 16384
local SPARE = 8 -- the most states that have ended and stay when such a record is rewritten
local OTHER = 'not of this version of rlproxy'
local record = {}
lib.record = record

-- about returns the error for a key whose record cannot be used.
local function about(key, why)
  return "ERR the stored record of '" .. string.gsub(key, '[%c]', '?') .. "' is " .. why .. '; RL.RESET removes it'
end

-- damaged raises the error for a key whose record is inconsistent, which fails the entry.
function record.damaged(key, why) error({ err = about(key, 'damaged: ' .. why) }) end

-- explain returns the text of an error that was raised for a key, and what is wrong with its record: 'damaged', 'not'
-- (not of this version of rlproxy), or nil. An error of Lua itself, which begins with a line of the library, comes from
-- an invalid number in the record. Other errors begin with a code. Redis's pcall returns the text of an error table,
-- not the table.
function record.explain(key, why)
  why = tostring(type(why) == 'table' and why.err or why)
  if string.find(why, '^WRONGTYPE') then why = about(key, 'damaged: it is not a string') end
  if string.find(why, '^@?user_') then why = about(key, 'damaged: ' .. why) end
  return why, string.match(why, "^ERR the stored record of '.*' is (%a+)")
end

-- guarded returns the function of the library that calls f(key, clock, ...) and raises its errors as explain words
-- them. Its arguments are
--   KEYS[1]         the stored key
--   ARGV[1]         the clock in ms; empty: the node's own
--   ARGV[2] and on  the other arguments of f
function record.guarded(f)
  return function(keys, args)
    local ok, reply = pcall(f, keys[1], lib.clock_of(args[1]), _G.unpack(args, 2))
    if not ok then error({ err = (record.explain(keys[1], reply)) }) end
    return reply
  end
end

-- text_of returns the decimal text of a number. It caches the last one: a batch often converts the same number again,
-- and that is slow.
local converted, decimal
local function text_of(n)
  if n ~= converted then converted, decimal = n, format('%d', n) end
  return decimal
end

-- cache returns a function that calls make(key, more) and caches what it returned, for at most `most` keys. A full
-- cache is emptied.
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

-- area_bytes returns the size of a state's area.
local function area_bytes(st)
  local fields = st.fields
  return fields.slot and st.slots * fields.slot or fields.area
end

-- blank returns a state without values in its fields.
local function blank(kind, parameter, window)
  local algorithm = algorithms[kind]
  return { kind = kind, parameter = parameter, window = window, algorithm = algorithm,
    fields = algorithm.fields(parameter), limit = 0, last = 0, rate = 0, begin = 0, area = false,
    patch = false, patch_at = 0, block = false, from = 0, held = false, asked = false, tail = false }
end

-- directory_of returns a table of what a record's directory determines:
--   text, bytes, count  the directory itself, its size and the number of states
--   head, inline, last  the bytes of directory and fields together, the inline size, and the latter minus 1 as text
--   lease, advances     the index of the lease record, or false; of the advances, see advance.lua
-- and by state
--   twins               the index of the state of its window's held units, or false
--   kinds, limits, names
--   at, offsets         the index in the record at which its fields begin, and the same as text, counted from 0
--   keep, lives         for how many ms after its last charge it may matter at most, and is stored at least
--   slots, area         the bytes of a slot of its area, or false, and the bytes of the area if it has no slots
--   states              a table to read it into
local directory_of = record.cache(1000, function(s, key)
  local count = (#s - HEAD) / NAME
  local d = { text = s, bytes = #s, count = count, kinds = {}, limits = {}, names = {}, at = {},
    keep = {}, lives = {}, slots = {}, area = {}, states = {}, offsets = {}, twins = {}, lease = false,
    advances = false, inline = schema.INLINE + schema.INLINE_MORE * max(count - 1, 0) }
  local at, held = #s + 1, false
  for i = 1, count do
    local from = HEAD + (i - 1) * NAME
    local kind, parameter, window, limit = unpack(schema.NAME, s, from + 1)
    local algorithm = algorithms[kind]
    if not algorithm then error({ err = about(key, OTHER) }) end -- a newer version may have more kinds
    if not algorithm.valid(parameter, window) then record.damaged(key, 'a state without a window') end
    if kind == HOME or kind == SHARD then
      if i < count then record.damaged(key, 'a state after the lease record') end
      d.lease = i
    end
    if kind == ADVANCES then d.advances = i end
    held = held or kind > HOLDS
    d.kinds[i], d.limits[i], d.at[i] = kind, limit, at
    local st = blank(kind, parameter, window)
    d.states[i], d.names[i] = st, sub(s, from + 1, from + NAME)
    d.keep[i] = algorithm.most and algorithm.most * window or 2 ^ 50
    d.lives[i] = (algorithm.least or 0) * window
    d.slots[i], d.area[i] = st.fields.slot or false, st.fields.area
    d.twins[i], d.offsets[i], at = false, tostring(at - 1), at + st.fields.bytes
  end
  d.head, d.last = at - 1, tostring(d.inline - 1)
  for i = 1, held and count or 0 do
    for j = 1, count do
      if d.kinds[j] == d.kinds[i] + HOLDS and sub(d.names[j], 2, STATE) == sub(d.names[i], 2, STATE) then
        d.twins[i] = j
      end
    end
  end
  return d
end)

-- new returns the directory of a record with `count` states; names is that of each.
function record.new(names, count) return directory_of(pack('>BI2', schema.VERSION, count) .. names, '') end

-- directory returns the directory of the record that begins with s, and s, or more of the record if s ends within it.
function record.directory(key, s)
  if #s < HEAD then record.damaged(key, 'it has ' .. #s .. ' bytes') end
  local version, count = unpack('>BI2', s)
  if version ~= schema.VERSION then
    error({ err = about(key, OTHER) })
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
--   advances    the state that has the advances, or false; advanced: its table, see advance.lua
--   inline      whether it is an inline record
--   rewrite     whether the whole record has to be composed and written
--   renamed     whether a state has taken the place of another one
--   bytes       its length as computed from its directory and fields
--   held        whether it has held units, also if they have lapsed
--   lapsed      how many lapsed holds were removed in memory; of several windows, the largest number
--   at_once     whether a multi-key request has just held units, which it charges at once
local rec = { key = '', clock = 0, now = 0, text = '', directory = false, count = 0, lease = false,
  advances = false, advanced = false, inline = true, rewrite = false, renamed = false, bytes = 0, held = false,
  lapsed = 0, at_once = false }

local ZEROS = string.rep('\0', 64) -- as many as any fields have bytes

-- state returns a state without admissions, which belongs to no record:
--   kind, parameter, window, limit
--                     its name in the record
--   begin             the index in the record at which its area begins; 0 if the state is in no record
--   area              the whole area, if all of it has changed
--   patch, patch_at   the bytes of the area that have changed, and their offset; of a log, the newest entry
--   tail              entries of a log that lapsed holds have added behind those of the ring, see slide.append
--   block, from       bytes that were read of a patched record, and the index in the record at which they begin
--   held, asked       the state of its window's held units, and whether the request is about it, see holds.weigh
function record.state(kind, parameter, window)
  local st = blank(kind, parameter, window)
  st.fields.read(st, ZEROS, 1)
  st.area = st.area or schema.rep('\0', area_bytes(st))
  return st
end

-- clean discards what a state in memory has apart from its fields: changes, and what was read of its area. It returns
-- the state.
function record.clean(st)
  st.area, st.patch, st.block, st.tail = false, false, false, false
  return st
end

-- load reads the record that begins with s into memory, and applies the holds that have lapsed. s has at least INLINE
-- bytes of a longer record; load reads up to the inline size if there may be more. d is the record's directory, if that
-- is known.
function record.load(key, clock, s, d)
  for i = 1, rec.count do record.clean(rec[i]) end -- the states of the last record, whose tables are cached
  rec.key, rec.clock, rec.text, rec.directory, rec.count, rec.lease, rec.rewrite = key, clock, s, d, 0, false, false
  rec.held, rec.lapsed, rec.renamed, rec.advances, rec.advanced, rec.at_once = false, 0, false, false, false, false
  if s == '' then
    rec.now, rec.directory, rec.inline = clock, false, true
    return rec
  end
  if not d then
    d, s = record.directory(key, s)
    rec.directory = d
  end
  if #s >= schema.INLINE and #s < d.inline then s = call('GETRANGE', key, '0', d.inline - 1) end
  if #s < d.head then record.damaged(key, 'it ends within its fields') end
  local now, begin, inline = clock, d.head + 1, #s < d.inline
  rec.text, rec.inline = s, inline
  for i = 1, d.count do
    local st, kind = d.states[i], d.kinds[i]
    rec[i], rec.count = st, i
    st.fields.read(st, s, d.at[i])
    st.limit, st.begin, st.held, st.asked = d.limits[i], begin, false, false
    begin = begin + area_bytes(st)
    if kind == lib.slide.kind then
      if st.count > st.slots or st.first >= st.slots or st.slots > schema.SLOTS then
        record.damaged(key, 'a log of ' .. st.slots .. ' slots')
      end
      if st.newest > st.last + schema.GRID then record.damaged(key, 'an admission after the newest charge') end
    elseif kind > HOLDS and st.cells > 0 then
      if st.cells > st.slots or st.slots > schema.CELLS or st.charge + st.release > schema.UNITS then
        record.damaged(key, st.cells .. ' deadlines of holds')
      end
      rec.held = true
    end
    if i == d.lease then
      rec.lease = st
      if st.slots > schema.LEASE_BYTES or st.ending > clock + 2 * schema.DELAY then
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
  if rec.held then lib.holds.lapse(rec) end
  if d.advances then lib.advance.load(rec, rec[d.advances]) end
  return rec
end

-- open reads a key's record into memory.
function record.open(key, clock)
  return record.load(key, clock, call('GETRANGE', key, '0', schema.INLINE - 1))
end

-- find returns the state with this kind, parameter and window, if the record has one.
function record.find(kind, parameter, window)
  for i = 1, rec.count do
    local st = rec[i]
    if st.kind == kind and st.window == window and st.parameter == parameter then return st end
  end
end

local function matters(st) return st.algorithm.matters_until(st) >= rec.clock end

-- windows returns how many windows have a state, of charged or of held units, that can still matter, or is about to.
local function windows()
  local seen, n = {}, 0
  for i = 1, rec.count do
    local st = rec[i]
    local name = pack(schema.STATE, st.kind % HOLDS, st.parameter, st.window)
    if st ~= rec.lease and st ~= rec.advances and not seen[name] and (st.asked or matters(st)) then
      seen[name], n = true, n + 1
    end
  end
  return n
end

-- replace lets a state take the place and the area of one that has ended, in a long record. It reports whether there is
-- one.
local function replace(st)
  for i = 1, not rec.inline and rec.bytes >= LONG and rec.count or 0 do
    local old = rec[i]
    local alike = old.kind == st.kind and old.parameter == st.parameter and old ~= rec.lease
    if alike and not old.asked and not matters(old) then
      record.clean(old)
      rec[i], rec.renamed, st.begin, st.slots = st, true, old.begin, old.slots
      return true
    end
  end
  return false
end

-- add adds a state to the record: held units before all others, so that they seldom move, and others at the end, before
-- the lease record if there is one. States that have ended are dropped when the record is rewritten, so they do not
-- count towards the most that a record may have.
function record.add(st)
  if replace(st) then return end
  local count = rec.count + 1
  if st.kind == HOME or st.kind == SHARD then rec.lease = st end
  local at = st.kind > HOLDS and 1 or rec.lease and rec.lease ~= st and rec.count or count
  for i = count, at + 1, -1 do rec[i] = rec[i - 1] end
  rec[at] = st
  rec.count, rec.rewrite, st.begin = count, true, 1 -- its area is in memory
  if count > STATES and windows() > STATES then
    error({ err = 'ERR too many windows on this key: at most ' .. STATES })
  end
end

-- bytes returns a string that has `need` bytes of a state's area from `offset` on, and the index in it at which they
-- begin. If it has to read them from a patched record, it reads `ahead` bytes.
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
  local size, change = area_bytes(st), st.patch
  if size == 0 then return '' end
  if st.area then return st.area end
  local s, at = record.bytes(st, 0, size, size)
  if not change then return sub(s, at, at + size - 1) end
  return sub(s, at, at + st.patch_at - 1) .. change .. sub(s, at + st.patch_at + #change, at + size - 1)
end

-- ends returns the last ms at which any state matters.
function record.ends()
  local ending = 0
  for i = 1, rec.count do ending = max(ending, rec[i].algorithm.matters_until(rec[i])) end
  return ending
end

-- expire lets a key live until LINGER ms after `last`, the last ms at which it matters; with gt = 'GT', only if that
-- is later than before. A server deletes a key at once, or does not store it, if its expiry is not later than the
-- server's clock. That may be `last` already, and it moves on while a call runs, which goes by the clock that it read
-- first.
function record.expire(key, last, gt)
  if gt then call('PEXPIREAT', key, text_of(last + LINGER), gt) else call('PEXPIREAT', key, text_of(last + LINGER)) end
end

-- store writes the record s over the stored one, whose bytes are old, to live as expire says. moves says whether
-- `last` differs from before. alone says whether it is right for the whole record; otherwise another state may matter
-- for longer, and the time to live is only ever extended. s is usually at least as long as old, and then SETRANGE is
-- used: it costs half as much as SET.
function record.store(key, old, s, last, moves, alone)
  if alone and (old == '' or #s < #old) then
    call('SET', key, s, 'PXAT', text_of(last + LINGER))
    return
  end
  if #s < #old then call('SET', key, s, 'KEEPTTL') else call('SETRANGE', key, '0', s) end
  if moves then record.expire(key, last, not alone and 'GT') end
end

local pieces = {} -- of the record being composed: names, fields, areas

-- directory_now returns the directory of the record in memory, which is a new one if limits or states have changed.
local function directory_now()
  local d, changed = rec.directory, rec.rewrite or rec.renamed
  for i = 1, rec.count do changed = changed or rec[i].limit ~= d.limits[i] end
  if not changed then return d end
  for i = 1, rec.count do
    local st = rec[i]
    pieces[i] = pack(schema.NAME, st.kind, st.parameter, st.window, st.limit)
  end
  return record.new(concat(pieces, '', 1, rec.count), rec.count)
end

-- fields packs the fields of all states.
local function fields()
  for i = 1, rec.count do pieces[i + 1] = rec[i].fields.write(rec[i]) end
end

-- compose returns the bytes of the record in memory. If the record is rewritten, compose drops states that no longer
-- matter, except for some of a long record, which add may replace. If it is too long to be inline, compose gives its
-- logs room to grow by an eighth.
local function compose()
  local count, spare = 0, not rec.inline and rec.bytes >= LONG and SPARE or 0
  for i = 1, rec.count do
    local st = rec[i]
    -- what is accounted for later may have been drawn while a bucket that is full now was not
    local live = not rec.rewrite or matters(st) or rec.advances and st.algorithm.drains
    if live or spare > 0 and st ~= rec.lease and st ~= rec.advances then
      if not live then spare = spare - 1 end
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
    local s = st.kind == lib.slide.kind and lib.slide.straighten(st) or record.area(st)
    pieces[count + 1 + i], bytes = s, bytes + #s
  end
  for i = 1, bytes >= d.inline and count or 0 do
    local st = rec[i]
    if st.kind == lib.slide.kind then
      local room = math.floor(st.count / 8) + 8
      st.slots = st.count + room
      pieces[count + 1 + i] = pieces[count + 1 + i] .. schema.rep('\0', room * ENTRY)
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

-- outdated reports whether a state is to be dropped. The fast path leaves such records to the slow path, so that both
-- store the same.
local function outdated()
  local keep = rec.directory.keep
  for i = 1, rec.count do
    if rec[i].last + keep[i] < rec.clock then return true end
  end
  return false
end

-- save writes the record in memory, to live as expire says. was is the last ms at which it mattered before.
function record.save(was)
  local last = record.ends()
  rec.rewrite = rec.rewrite or (rec.inline or rec.bytes < LONG or rec.count > STATES) and outdated()
  if last < rec.clock then -- all held units were given back, and nothing is charged
    call('UNLINK', rec.key)
  elseif rec.inline or rec.rewrite then
    local s = compose()
    record.store(rec.key, rec.rewrite and '' or rec.text, s, last, last ~= was, true)
  else
    patch()
    if last ~= was then record.expire(rec.key, last) end
  end
end
