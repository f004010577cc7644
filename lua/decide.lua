-- decide.lua: the function rl_decide answers a batch of entries. An entry is a key, a spec, and a number of equal
-- requests.
--
-- For each entry, answer reads the first bytes of the key's record and calls
--   fast_path   for nearly all entries. It reads fields at offsets that the record's directory determines, and lets the
--               algorithm's straight function decide and pack the bytes to store. Two cases differ from one window that
--               is the whole record: beside (one window among other states, or of a split key) and together (several
--               windows). fast_path returns nothing if it cannot decide.
--   slow_path   otherwise. reset deletes a key. For any other entry, record.load reads the record into memory, and
--               lib.answer decides: holds.weigh finds the states and the units in use; home.decide or shard.ask decides
--               for a split key; take (lib.charge) charges; holds.room_at computes when there is room again after a
--               denial; record.save writes the record.
-- Both give the same reply and store the same record, byte for byte. If either raises an error, lib.failure makes the
-- reply, and the batch continues with the next entry. rl_admit and rl_all also use lib.entry and lib.answer.
--
-- Example: an entry has 3 requests of cost 1 for a window of 60 s with limit 10, of which 8 units are used. granted is
-- 2 and used is 8. The proxy answers that the first two requests are admitted, with 1 and 0 remaining, and that the
-- third is denied until room at. The record is written once, with 2 more units.
--
-- KEYS    the stored key of each entry. For a node of a cluster they are at the end of ARGV instead, because a call may
--         declare keys of only one slot; the node still checks every key when it is used.
-- ARGV[2] ENTRY* of messages.lua. Empty: each entry is one request with the spec ARGV[3], the only one
-- ARGV[3] and on: specs. One of the kind RESET deletes the key, and granted is 1 if it existed
-- returns one string: CLOCK, and the reply to each entry
-- Cost: O(entries); per entry one Redis call to read, and one or two to write if it admits. A patched record takes one
--       more for each log to read, and to write, and up to six more for each RL.COUNTER to read.
local lib = ...

local call, unpack, pack, sub = redis.call, struct.unpack, struct.pack, string.sub
local min, max, floor, concat = math.min, math.max, math.floor, table.concat
local schema, record, rate, gcra, spec, holds, lease, home, shard, advance =
  lib.schema, lib.record, lib.rate, lib.gcra, lib.spec, lib.holds, lib.lease, lib.home, lib.shard, lib.advance
local ask, messages = lib.ask, lib.messages
local AT_HOME, AT_SHARD, HELD, STATUS = messages.AT_HOME, messages.AT_SHARD, messages.HELD, messages.STATUS
local ADMITTED, DENIED, BESIDE, HOMES, SHARDS =
  messages.ADMITTED, messages.DENIED, messages.BESIDE, messages.HOMES, messages.SHARDS
local RESET, SLIDE, HOLDS = schema.RESET, lib.slide.kind, schema.HOLDS
local YEAR, UNITS, DELAY = schema.YEAR, schema.UNITS, schema.DELAY
local SHIFT, SLOTS_AT, ENDING_AT, SUMMARY_AT = schema.SHIFT, schema.SLOTS_AT, schema.ENDING_AT, schema.SUMMARY_AT

-- clock_of returns the clock in whole ms, which it also sets for straight functions, as it sets the ns beyond it for
-- rates: the node's own time, or the one given, as in tests, which is ms, or ms.ns with 6 digits of ns.
function lib.clock_of(given)
  if given ~= '' then
    local ms, ns = string.match(given, '^(%d+)%.?(%d*)$')
    ask.clock, gcra.ns = tonumber(ms), tonumber(ns) or 0
    return ask.clock
  end
  local time = call('TIME')
  local us = time[2] + 0
  local beyond = us % 1000
  ask.clock, gcra.ns = time[1] * 1000 + (us - beyond) / 1000, beyond * 1000
  return ask.clock
end

-- reset deletes a key and its ids, except for what is advanced, unless it is the home of a split key and other shards
-- still hold units. A damaged record is deleted in any case. A record that no longer matters counts as none.
local function reset(key, s, clock)
  local out
  local sound, lent, live = pcall(function()
    local rec = record.load(key, clock, s)
    out = advance.out(rec)
    return home.lent(rec), record.ends() >= clock
  end)
  if sound and lent then
    return pack(STATUS, messages.AT_HOME) .. pack(messages.HOME, lent.shards, 1) .. pack(messages.GRANTED, 1, 0)
  end
  call('PUBLISH', 'rl:reset', key) -- to proxies that remember denials, or have advances
  local stored, ids = call('UNLINK', key), call('UNLINK', key .. '%i')
  if sound and out then
    advance.reset(record.load(key, clock, ''), out)
    record.save(0)
  end
  return pack(STATUS, messages.DECIDED) .. pack(messages.GRANTED, max(live ~= false and stored or 0, ids), 0)
end

local states, uses, out = {}, {}, {} -- by window, of the entry being decided

-- answer decides any entry from the record in memory, by the operations of its algorithm: any number of windows,
-- records of any form, homes and shards of split keys. take admits units, as lib.charge does, and reports whether to
-- save the record. answer returns the reply, the ms by which the windows were decided, and how many requests were
-- granted.
function lib.answer(rec, q, requests, take)
  local key, clock, n, limits, strict, needs = rec.key, rec.clock, q.count, q.limits, q.strict, q.needs
  local granted = requests
  if q.dated then lib.fixed.misdated(q, rec.now) end
  holds.weigh(rec, q, states, uses, strict)
  for i = 1, n do granted = max(min(granted, floor((limits[i] - uses[i]) / needs)), 0) end
  local shards, open, refusal, keep = 0, false, '', false
  local was = record.ends()
  if q.shard then
    local rooms
    granted, rooms, refusal, keep = shard.ask(rec, q, states, uses, requests)
    for i = 1, n do uses[i] = limits[i] - (rooms[i] or 0) end
  elseif rec.lease and q.algorithm.additive then
    local h = home.lent(rec)
    if h then
      local room, recalls
      granted, room, recalls = home.decide(h, clock, q, uses, { requests = requests })
      for i = 1, n do uses[i] = limits[i] - room[i] end
      shards, open = h.shards, #recalls > 0 and granted < requests or q.cost == 0
    end
  end
  local units, waits = granted * q.cost, false
  if rec.advances and not q.shard then
    local undecided = granted < requests or q.cost == 0
    if undecided or advance.scarce(q, uses, units) then waits, keep = advance.recall(rec, q) end
    waits = waits and undecided
  end
  if q.cost == 0 and granted > 0 then granted = requests end -- without cost, one answer serves all
  local saves = units > 0 and take(rec, q, states, units) or keep
  local calls, held = 0, rec.held or rec.advances
  for i = 1, n do
    local st, over, room = states[i], uses[i] + units + needs - limits[i], 0
    if granted < requests and over > 0 and not open and not waits and not q.shard then
      room = (rec.advances and advance or holds).room_at(st, rec, over, limits[i] - needs, strict)
    end
    if not q.algorithm.drains and (uses[i] > UNITS or room > clock + DELAY or room > 0 and room <= clock) then
      record.damaged(key, 'what it counts does not add up')
    end
    calls = max(calls, rate.at(clock, st.last, st.rate))
    local empty = (rec.advances and advance or holds).empty_at(st, rec, strict)
    out[i + 1] = pack(messages.USAGE, uses[i], room, empty)
  end
  if saves then record.save(was) else rec.lapsed = 0 end
  local status = waits and messages.RECALLED or held and HELD or messages.DECIDED
  local head = pack(STATUS, q.shard and AT_SHARD or shards > 0 and AT_HOME or status)
  if shards > 0 then head = head .. pack(messages.HOME, shards, (open and 1 or 0) + (held and 2 or 0)) end
  if held then head = head .. pack(messages.LAPSED, rec.lapsed) end
  out[1] = head .. pack(messages.GRANTED, granted, calls)
  out[n + 2] = q.shard and pack(messages.TEXT, #refusal) .. refusal or ''
  return concat(out, '', 1, n + 2), rec.now, waits and 0 or granted -- what costs nothing is asked again, too
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

local more = { now = 0, bound = false, held = 0, key = false } -- see lib.ask; of beside and fast_path

-- beside is the fast path of one window when the record has other states too, or belongs to the home or a shard of a
-- split key. j is the index of the window's state. At a split key with held units, the slow path decides.
local function beside(q, d, j, key, s, requests)
  local at, kinds, lease_at, clock, begin, areas, stored = d.at, d.kinds, d.lease, ask.clock, d.head + 1, q.areas, 0
  local now, bound, offset, shards = clock, false, 0, 0
  local held, outlast, last_charge, last_release = false, 0 -- outlast: the units that are held of the window itself
  for i = 1, d.count do
    if i == lease_at then
      if unpack('>I6', s, at[i] + ENDING_AT) < clock then return end -- the slow path drops the lease record
    elseif i ~= j then
      local from = at[i]
      local last = unpack('>I6', s, from)
      if last + d.keep[i] < clock then return end -- the slow path drops the state
      if last > now then now = last end
      if kinds[i] > HOLDS then
        local units, charge, release = holds.beside(s, from, clock)
        if not units then return end
        held = held or units > 0
        if units > 0 and i == d.twins[j] then outlast, last_charge, last_release = units, charge, release end
      end
      if areas then
        local lives, slot = last + d.lives[i], d.slots[i]
        if lives > stored then stored = lives end
        if i < j then begin = begin + (slot and unpack('>I3', s, from + SLOTS_AT) * slot or d.area[i]) end
      end
    end
  end
  if now > clock + YEAR then return end
  if held and (lease_at or q.shard) then return end
  if outlast > 0 then
    if q.kind ~= SLIDE then return end
    offset = outlast
    if last_release > 0 then outlast, bound = 0, q.limits[1] - offset end -- they may end earlier than the log
  end
  if lease_at then
    if q.cost == 0 then return end
    bound, offset, shards = lease.summary(q, s, at[lease_at] + SUMMARY_AT, clock)
    if not bound then return end
  end
  if q.shard and (not bound or now > clock) then return end
  local from, long = at[j], ask.more
  ask.more, more.now, more.bound, more.held, more.key = more, now, bound, outlast, long and key
  local rated, used, empty, fields = q.straight(q, s, from, begin, requests, areas and '')
  if not rated then return end
  local expires, room = ask.ends, rated < requests * SHIFT and ask.room or 0
  local moves = fields and ask.moves and expires > stored
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
    if offset > 0 then
      empty = holds.ends_after(empty, q.windows[1], d.limits[d.twins[j]], last_charge, last_release)
    end
    return pack(BESIDE, HELD, 0, rated, used + offset, room, empty), rated
  end
  if not bound then
    if room == 0 then return pack(ADMITTED, rated, used, empty), rated end
    return pack(DENIED, rated, used, room, empty), rated
  end
  if q.shard then return pack(SHARDS, AT_SHARD, rated, used + offset, 0, empty, 0), rated end
  return pack(HOMES, AT_HOME, shards, 0, rated, used + offset, 0, empty), rated
end

local pieces = {} -- of the record being composed

-- together is the fast path of several windows if they are the record's only states and all requests are granted.
local function together(q, d, key, s, requests)
  local n, begin, straight, most, expires, moves, usages = q.count, d.head + 1, q.straight, 0, 0, false, ''
  for i = 1, n do
    local at, slot = d.at[i], d.slots[i]
    local rated, used, empty, fields = straight(q.each[i], s, at, begin, requests, false)
    if not rated or rated < requests * SHIFT then return end
    if rated > most then most = rated end
    if ask.ends > expires then expires = ask.ends end
    moves, pieces[i + 1], pieces[n + i + 1] = moves or ask.moves, fields, ask.area
    usages = usages .. pack(messages.USED, used, empty)
    if s ~= '' then begin = begin + (slot and unpack('>I3', s, at + SLOTS_AT) * slot or d.area[i]) end
  end
  if pieces[2] then
    pieces[1] = d.text
    local text = concat(pieces, '', 1, 2 * n + 1)
    if #text >= d.inline then return end
    record.store(key, s, text, expires, moves, true)
  end
  return pack(messages.SEVERAL, most) .. usages, most
end

-- fast_path answers nearly all entries: those whose record does not exist yet, or has all states of the spec with
-- unchanged limits. Of a patched record it decides one log, and several windows only by the clock. It returns the reply
-- and, in one number, as a straight function does, how many requests were granted and the rate. Otherwise it returns
-- nothing, and has written nothing.
local function fast_path(q, key, s, requests)
  local d, place = q.directory, q.place
  if s == '' then
    d, place = q.fresh, q.straight and 1
  elseif sub(s, 1, d.bytes) ~= d.text then
    d, place = spec.place(q, key, s)
    -- s may end within the areas. lib.entry reads the fields in it afterwards.
    if q.areas and #s >= max(d.head, schema.INLINE) and #s < d.inline then s = call('GETRANGE', key, '0', d.last) end
  end
  if not place or #s < d.head and s ~= '' then return end
  local long = q.areas and #s >= d.inline
  if long and q.kind ~= SLIDE then return end
  ask.more = long and more
  if q.count > 1 then
    if long or d ~= q.fresh or q.shard then return end
    return together(q, d, key, s, requests)
  end
  if d.count > 1 then return beside(q, d, place, key, s, requests) end
  if q.shard then return end
  if long then more.now, more.bound, more.held, more.key = ask.clock, false, 0, key end
  local rated, used, empty, fields = q.straight(q, s, d.at[1], d.head + 1, requests, d.text)
  if not rated then return end
  local room = rated < requests * SHIFT and ask.room or 0
  if long then
    if fields and ask.moves then record.expire(key, ask.ends) end
  elseif fields then
    if #fields >= d.inline then return end
    record.store(key, s, fields, ask.ends, ask.moves, true)
  end
  if room == 0 then return pack(ADMITTED, rated, used, empty), rated end
  return pack(DENIED, rated, used, room, empty), rated
end

-- entry decides one request for one key. It returns the reply, the ms by which its windows were decided, and how many
-- requests were granted.
function lib.entry(q, key, clock)
  local s = call('GETRANGE', key, '0', q.last)
  local reply, rated = fast_path(q, key, s, 1)
  if not reply then return slow_path(q, key, s, clock, 1) end
  local now = clock
  if s ~= '' then
    local d = q.directory
    for i = 1, d.count do now = i ~= d.lease and max(now, (unpack('>I6', s, d.at[i]))) or now end
  end
  return reply, now, rated < SHIFT and 0 or 1
end

-- failure returns the reply for an entry that has failed, and so has charged nothing. A reset still deletes whatever is
-- stored. At a shard, a damaged record is deleted: the home still counts everything that it lent.
function lib.failure(key, text, why)
  local wrong
  why, wrong = record.explain(key, why)
  local known, q = pcall(spec.of, text)
  if wrong and known then
    if q.kind == RESET then return reset(key, '') end
    if q.shard and wrong == 'damaged' then call('UNLINK', key) end
  end
  return pack(STATUS, messages.FAILED) .. pack(messages.TEXT, #why) .. why
end

-- The call of decide: its keys, which begin after the index `before`, and its arguments; the entries, how many there
-- are, and how many of them have a reply in replies, which is after that of the clock. decide writes it, for one call,
-- and answer_entries counts the replies.
local batch = { keys = {}, before = 0, args = {}, entries = '', count = 0, clock = 0, done = 0 }
local replies = {}

-- of returns the text of the spec and the number of requests of an entry.
local function of(i)
  if batch.entries == '' then return batch.args[3], 1 end
  local index, requests = unpack(messages.ENTRY, batch.entries, (i - 1) * messages.ENTRY_BYTES + 1)
  return batch.args[index], requests
end

-- answer_entries appends the replies to the entries that have none.
local function answer_entries()
  local keys, before, clock, several = batch.keys, batch.before, batch.clock, batch.entries ~= ''
  local q, text, requests
  for i = batch.done + 1, batch.count do
    if several or not q then
      text, requests = of(i)
      q = spec.of(text)
    end
    local key = keys[before + i]
    local s = call('GETRANGE', key, '0', q.last)
    replies[i + 1] = fast_path(q, key, s, requests) or slow_path(q, key, s, clock, requests)
    batch.done = i
  end
end

function lib.decide(keys, args)
  local clock, entries, before, count = lib.clock_of(args[1]), args[2], 0, #keys
  if count == 0 then
    count = entries == '' and #args - 3 or #entries / messages.ENTRY_BYTES
    keys, before = args, #args - count
  end
  batch.keys, batch.before, batch.args, batch.entries, batch.count = keys, before, args, entries, count
  batch.clock, batch.done, replies[1] = clock, 0, pack(messages.CLOCK, clock)
  while batch.done < count do
    local ok, why = pcall(answer_entries)
    if not ok then -- the entry after those that are done failed
      local i = batch.done + 1
      replies[i + 1], batch.done = lib.failure(keys[before + i], of(i), why), i
    end
  end
  return concat(replies, '', 1, count + 1)
end
