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
local HOME, STATE, LEASE = layout.HOME, layout.STATE_BYTES, lease.LEASE
local GRACE = 20  -- ms that a loan has to arrive before its shard is lent more
local SCARCE = 32 -- nothing is lent when less than the limit divided by SCARCE is left
local home = {}
lib.home = home

-- units_out returns how many units of a state a shard may have in use, or nil if a strict count of a weighted out is unknown.
local function units_out(l, name, strict)
  if not strict or l.strict or not l.out[name] or not lib.algorithms[byte(name)].weighted then return l.out[name] or 0 end
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
      r.used[sub(s, at, at + STATE - 1)], at = unpack('>I6', s, at + STATE)
    end
    list[#list + 1] = r
  end
  return list
end

-- The function rl_lend decides at the home of a split key, from the reports of the other shards, and lends to the shard that
-- refused. A spec without cost, or without windows, only reads.
--
-- ARGV[2] requests 4 bytes, the number of shards that the caller wants 2
-- ARGV[3] the spec, see spec.lua
-- ARGV[4] empty, or the number of the shard that refused 4, then its refusal, see shard.lua
-- ARGV[5] reports, each: shard 4, seq 7, incarnation 6, flags 1 (1: stale, 2: its lease has ended, 4: counted in full),
--         states 1, per state its name 11, used 6
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
lib.lend = record.guarded(function(key, clock, numbers, spec_text, refusal, reports_text, unreachable, id_text)
  local q, requests, wanted = lib.spec.of(spec_text), unpack('>I4I2', numbers)
  local with_id = (id_text or '') ~= ''
  local by_id = with_id and q.cost > 0 and lib.by_id
  if by_id then by_id.open(id_text, key, clock) end
  local rec = by_id and lib.ids.record(clock) or record.open(key, clock)
  local known = by_id and by_id.again(rec, q, clock)
  if known then return known end
  local was = record.ends()
  local h = home.open(rec) or { shards = wanted, pairs = '', strict = false, seq = 0, no_lending_until = 0, lent = {} }
  if #h.lent == 0 then h.shards = wanted end
  local before = cmsgpack.pack(h)
  local states, uses = {}, {}
  holds.weigh(rec, q, states, uses, q.strict)
  local reports, read = reported(reports_text), {}
  for _, r in ipairs(reports) do
    collect(h, r)
    if not r.stale then read[r.shard] = max(read[r.shard] or 0, r.seq) end
  end
  for at = 1, #unreachable, 4 do read[unpack('>I4', unreachable, at)] = layout.WRAP * 32 end -- as if read, whatever was lent
  local granted, room, recalls, loan
  if q.cost == 0 then
    granted, room, recalls = 0, room_of(h, q, uses, false), {}
    for i, l in ipairs(h.lent) do recalls[i] = { l = l, close = true } end
  else
    granted, room, recalls, loan = home.decide(h, clock, q, uses, requests, refused(refusal, q), #reports, read)
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
  local shards = (#h.lent > 0 and h.shards or 0) + (rec.held and 32768 or 0)
  local lapsed = rec.held and pack('>I3', rec.lapsed) or ''
  reply[1] = (with_id and '\0' or '') .. pack('>I6I4I3I2', clock, granted, calls, shards) .. lapsed
  return concat(reply)
end)

-- The function rl_forget completes the reset of a split key at its home, after the other shards have forgotten their units.
--
-- ARGV[2] for each shard that forgot: its number 4 bytes, the seq that it was sent 7
-- returns 1 byte: 1 if nothing is left, 0 if shards remain that did not forget, or were lent to since
-- Cost: O(shards).
lib.forget = record.guarded(function(key, clock, shards)
  local forgot = {}
  for at = 1, #shards, 11 do
    local number, seq = unpack('>I4I7', shards, at)
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
