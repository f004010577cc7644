-- home.lua: the home of a split key. The home owns the limit, lends pieces of it to the other shards, and is the only
-- shard that denies. The functions are those of shard/lease/model/home.go.
--
-- The table of a home's lease record has
--   shards             how many shards the key has, with the home
--   pairs, strict      what the live leases were granted for, see lease.lua
--   seq                that of the newest loan
--   no_lending_until   ms
--   lent               a list with a table for each shard that was lent to: shard (its number), seq, incarnation,
--                      ended (whether its lease has ended), strict (out counts in full), and out (by state, the units
--                      that it may have in use)
local lib = ...

local pack, sub, byte = struct.pack, string.sub, string.byte
local max, min, floor = math.max, math.min, math.floor
local schema, messages, record, lease, holds = lib.schema, lib.messages, lib.record, lib.lease, lib.holds
local HOME, STATE, LEASE = schema.HOME, schema.STATE_BYTES, lease.LEASE
local GRACE = 20  -- ms that a loan has to arrive before its shard is lent more
local SCARCE = 32 -- nothing is lent when less than the limit divided by SCARCE is left
local home = {}
lib.home = home

-- units_out returns how many units of a state a shard may have in use, or nil if a strict count of a weighted out is
-- unknown.
local function units_out(l, name, strict)
  local n = l.out[name]
  if not n then return 0 end
  if not strict or l.strict or not lib.algorithms[byte(name)].weighted then return n end
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
  local name, limit = sub(h.pairs, 1, STATE), lease.limit(h.pairs)
  for _, l in ipairs(h.lent) do
    lent = lent + (units_out(l, name, h.strict) or limit)
    for of, n in pairs(l.out) do
      local last = floor(l.seq / 1000) + LEASE + lease.life(of)
      ending = max(ending, last)
      if n > 0 and (lapse < 0 or last < lapse) then lapse = last end
    end
  end
  lease.keep(rec, HOME, h, ending, { bound = limit - lent, offset = lent, from = 0, till = lapse })
end

local function lent_to(h, number)
  for i, l in ipairs(h.lent) do
    if l.shard == number then return l, i end
  end
end

-- collect applies a report, unless the shard was lent to since the report was requested. It returns true if states are
-- missing. strict is whether the units of the report are counted in full.
local function collect(h, report, strict)
  local l = lent_to(h, report.shard)
  if not l or report.stale or report.seq < l.seq or report.incarnation ~= l.incarnation then return end
  local used = {}
  for _, use in ipairs(report.used) do used[use.state] = use.units end
  l.ended = l.ended or report.ended
  if strict ~= l.strict then
    for name in pairs(l.out) do
      if not used[name] then return true end -- it would count otherwise than the table says
    end
  end
  for name, n in pairs(used) do
    if l.out[name] and (n < l.out[name] or strict ~= l.strict) then l.out[name] = n end
  end
  l.strict = strict
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

-- recall_of returns the recall of everything that a shard has.
local function recall_of(l, end_lease, strict)
  local states = {}
  for name in pairs(l.out) do states[#states + 1] = name end
  return { shard = l.shard, seq = l.seq, end_lease = end_lease, strict = strict, states = states }
end

-- unread returns the recalls that are needed before the rest may be denied: those of shards that have units in use, or
-- a live lease for another spec, and are not in read, see decide.
local function unread(h, clock, q, read)
  local recalls, alike = {}, same(h, q)
  for _, l in ipairs(h.lent) do
    local needed = not alike and live(l, clock)
    for _, name in ipairs(q.names) do needed = needed or units_out(l, name, q.strict) ~= 0 end
    if needed and not (read[l.shard] and read[l.shard] >= l.seq) then
      recalls[#recalls + 1] = recall_of(l, not alike, q.strict)
    end
  end
  return recalls
end

-- pieces returns, by window, the units that a shard may have in use and those that are left at home if it is lent an
-- equal share of the room; or nothing if it would not have enough for a request. more says whether it would have more
-- than before.
local function pieces(h, q, l, room)
  local held, headroom, more = {}, {}, false
  for i, name in ipairs(q.names) do
    local piece, has = floor(room[i] / h.shards), l and l.out[name] or 0
    if room[i] < floor(q.limits[i] / SCARCE) then piece = 0 end
    if has + piece < q.cost then return end
    more = more or piece > 0
    held[i], headroom[i] = has + piece, room[i] - piece
  end
  return held, headroom, more
end

-- out_of returns, by state, the units that count as lent to a shard if it is lent these of the spec's; or nothing if
-- they cannot be counted, or the table would have too many states.
local function out_of(h, q, l, held)
  local out, names = {}, q.count
  for i, name in ipairs(q.names) do out[name] = held[i] end
  for name, n in pairs(l and l.out or {}) do -- units of other specs still count
    if not units_out(l, name, q.strict) then return end
    if not out[name] and units_out(l, name, true) ~= 0 then out[name], names = n, names + 1 end
  end
  local all = names
  for _, other in ipairs(h.lent) do
    for _ in pairs(other ~= l and other.out or {}) do all = all + 1 end
  end
  if names <= schema.STATES and all <= lease.NAMES then return out end
end

-- lend lends to the shard that refused, on top of what it has. It returns the message `loan`, if it lends.
local function lend(h, clock, q, refusal, room)
  if h.shards < 2 or clock < h.no_lending_until then return end
  local l, at = lent_to(h, refusal.shard)
  if l and (refusal.incarnation ~= l.incarnation
    or refusal.seq ~= l.seq and clock < floor(l.seq / 1000) + GRACE) then return end
  local held, headroom, more = pieces(h, q, l, room)
  if not held or not more and not refusal.ended then return end
  local out = out_of(h, q, l, held)
  if not out or not l and #h.lent >= lease.SHARDS then return end
  h.pairs, h.strict, h.seq = q.pairs, q.strict, max(h.seq + 1, refusal.seq + 1, clock * 1000)
  h.lent[at or #h.lent + 1] = { shard = refusal.shard, seq = h.seq, incarnation = refusal.incarnation, ended = false,
    strict = q.strict, out = out }
  local loan = { shard = refusal.shard, seq = h.seq, clock = refusal.clock, incarnation = refusal.incarnation,
    pairs = {}, strict = q.strict, held = held, headroom = headroom }
  for i, name in ipairs(q.names) do loan.pairs[i] = { state = name, limit = q.limits[i] } end
  return loan
end

-- decide returns how many requests are granted, the room that there was by window, the recalls that are needed before
-- the rest is denied, and the loan. uses are the home's own units in use, by window. asked is the message `lend`, of
-- which only requests must be there, with one more field: read has the newest seq that was read of each shard; a shard
-- that cannot be reached is in it, too.
function home.decide(h, clock, q, uses, asked)
  local requests, refusal, read = asked.requests, asked.refusal, asked.read or {}
  if refusal and refusal.ended and not collect(h, refusal, q.strict) then
    read[refusal.shard] = max(read[refusal.shard] or 0, refusal.seq)
  end
  local others = other_leases(h, clock, q)
  local room = room_of(h, q, uses, others)
  local granted = requests
  for _, units in ipairs(room) do granted = max(min(granted, floor(units / q.needs)), 0) end
  local recalls = granted < requests and unread(h, clock, q, read) or {}
  if #recalls > 0 and asked.reports and #asked.reports > 0 then h.no_lending_until = clock + floor(LEASE / 4) end
  -- An admission reports the room of its own limits. Only a denial may be due to the limits of other leases.
  if others and (granted == requests or #recalls > 0) then room = room_of(h, q, uses, false) end
  if granted < requests or not refusal or others then return granted, room, recalls end
  local left = {}
  for i, units in ipairs(room) do left[i] = units - granted * q.cost end
  return granted, room, {}, lend(h, clock, q, refusal, left)
end

-- hear applies the reports of the message `lend` to the home's table, and adds read, see decide.
local function hear(h, asked)
  local read = {}
  for _, report in ipairs(asked.reports) do
    collect(h, report, report.strict)
    if not report.stale then read[report.shard] = max(read[report.shard] or 0, report.seq) end
  end
  for _, number in ipairs(asked.unreachable) do read[number] = math.huge end -- as if read, whatever was lent
  asked.read = read
end

-- look is decide without a decision.
local function look(h, q, uses)
  local recalls = {}
  for i, l in ipairs(h.lent) do recalls[i] = recall_of(l, true, q.strict) end
  return 0, room_of(h, q, uses, false), recalls
end

-- tallies returns the list of `tally`, and the calls per second that charge. units are those that were just granted,
-- and denies whether there were more requests.
local function tallies(rec, h, q, window, units, denies)
  local list, calls = {}, 0
  for i = 1, q.count do
    local st, lent, own, first = window.states[i], 0, window.uses[i] + units, 0
    for _, l in ipairs(h.lent) do lent = lent + (l.out[q.names[i]] or 0) end
    if denies and own > 0 then first = lease.first(rec, st, own, q.strict) end
    list[i] = { used = q.limits[i] - window.room[i], own = own, first = first, lent = lent,
      empty = holds.empty_at(st, rec, q.strict) }
    calls = max(calls, lib.rate.at(rec.clock, st.last, st.rate))
  end
  return list, calls
end

-- loaned returns the list of `loaned`.
local function loaned(rec, h, q, states)
  local list = {}
  for i, l in ipairs(h.lent) do
    list[i] = { shard = l.shard, incarnation = l.incarnation, out = {}, empty = {} }
    for j, name in ipairs(q.names) do
      local out = l.out[name] or 0
      list[i].out[j] = out
      list[i].empty[j] = out > 0 and q.algorithm.empty_after(states[j], rec.clock, q.limits[j], out, q.strict) or 0
    end
  end
  return list
end

-- first_reply returns what rl_admit replies to a request with an id that a home has granted.
local function first_reply(clock, m)
  local entry = { pack(messages.STATUS, messages.DECIDED) .. pack(messages.GRANTED, m.decision.granted, m.rate) }
  for i, t in ipairs(m.tallies) do
    local empty = t.empty
    for _, l in ipairs(m.lent) do empty = max(empty, l.empty[i]) end
    entry[i + 1] = pack(messages.USAGE, t.used, 0, empty)
  end
  return lib.by_id.first(clock, table.concat(entry))
end

-- answer decides a message `lend` and saves what has changed. It returns the message `home`. with_id says that the
-- request has an id, which is in memory.
local function answer(rec, q, asked, with_id)
  local clock, was, states, uses = rec.clock, record.ends(), {}, {}
  local h = home.open(rec) or { shards = 0, pairs = '', strict = false, seq = 0, no_lending_until = 0, lent = {} }
  if #h.lent == 0 then h.shards = asked.shards end
  if q.dated then lib.fixed.misdated(q, rec.now) end
  local before = cmsgpack.pack(h)
  holds.weigh(rec, q, states, uses, q.strict)
  hear(h, asked)
  local granted, room, recalls, loan
  if q.cost == 0 then
    granted, room, recalls = look(h, q, uses)
  else
    granted, room, recalls, loan = home.decide(h, clock, q, uses, asked)
  end
  local units = granted * q.cost
  if units > 0 then (with_id and lib.by_id.take or lib.charge)(rec, q, states, units) end
  for i = 1, q.count do
    if q.limits[i] - room[i] > schema.UNITS then record.damaged(rec.key, 'what it counts does not add up') end
  end
  local m = { clock = clock, held = rec.held or false, lent = loaned(rec, h, q, states),
    decision = { granted = granted, recalls = recalls, loan = loan } }
  m.tallies, m.rate = tallies(rec, h, q, { states = states, uses = uses, room = room }, units, granted < asked.requests)
  m.shards = #h.lent > 0 and h.shards or 0
  local recalled = rec.advances and granted < asked.requests and q.cost > 0 and select(2, lib.advance.recall(rec, q))
  if q.cost > 0 and (units > 0 or recalled or cmsgpack.pack(h) ~= before) then
    if #h.lent > 0 then keep(rec, h) end
    record.save(was)
  else
    rec.lapsed = 0
  end
  m.lapsed = rec.held and rec.lapsed or 0
  return m
end

-- The function rl_lend decides at the home of a split key, from the reports of the other shards, and lends to the shard
-- that refused. A spec without cost, or without windows, only reads. It takes `lend` and returns `lent`, see
-- messages.lua.
--
-- Cost: O(shards), one write if something was granted, lent or reported.
lib.lend = record.guarded(function(key, clock, message)
  local asked = cmsgpack.unpack(message)
  local q, by_id = lib.spec.of(asked.spec), lib.by_id
  if not asked.id or q.cost == 0 then
    return cmsgpack.pack({ home = answer(record.open(key, clock), q, asked, false) })
  end
  by_id.open(asked.id, key, clock)
  local rec = lib.ids.record(clock)
  local known = by_id.again(rec, q, clock)
  if known then return cmsgpack.pack({ known = known }) end
  local m = answer(rec, q, asked, true)
  if m.decision.granted > 0 then by_id.remember(q, rec.now, first_reply(clock, m)) end
  return cmsgpack.pack({ home = m })
end)

-- The function rl_forget completes the reset of a split key at its home, after the other shards have forgotten their
-- units. It takes `forgot` and returns `forgotten`, see messages.lua.
--
-- Cost: O(shards).
lib.forget = record.guarded(function(key, clock, message)
  local forgot, left = {}, {}
  for _, s in ipairs(cmsgpack.unpack(message).shards) do forgot[s.shard] = s.seq end
  local rec = record.open(key, clock)
  local h, out = home.open(rec), lib.advance.out(rec)
  redis.call('PUBLISH', 'rl:reset', key) -- to proxies that remember denials, or have advances
  for _, l in ipairs(h and h.lent or {}) do
    if not forgot[l.shard] or forgot[l.shard] < l.seq then left[#left + 1] = l end
  end
  redis.call('UNLINK', key .. '%i')
  redis.call('UNLINK', key)
  record.load(key, clock, '')
  if out then lib.advance.reset(rec, out) end
  if #left > 0 then
    h.lent = left
    keep(rec, h)
  end
  if rec.count > 0 then record.save(0) end
  return cmsgpack.pack({ forgotten = #left == 0 })
end)
