-- lend.lua: asks the home of a split key, on the reports of its parts, and lends to the part that missed. A
-- question without cost, or of no windows, only tells.
--
-- KEYS[1] the home's stored key
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] requests 4 bytes, parts that the caller wants 2
-- ARGV[3] the question, see ask.lua
-- ARGV[4] empty, or of the part that missed: number 4, then the miss, see part.lua
-- ARGV[5] reports, each: part 4, seq 7, born 6, flags 1 (1: stale, 2: over, 4: counted in full), states 1, per state
--         its name 8, used 6
-- ARGV[6] numbers of parts that cannot be reached, 4 each
-- returns the clock 6, granted 4, rate 3, parts in the layout 2 (0: none),
--         per pair used 6 (by all, as the home sees it), own 6, ms until the first of that is not used 6, last 6,
--         newest 6, what parts count 6 (in all),
--         number of parts lent to 2, each: part 4, born 6, per pair what it counts 6,
--         number of recalls 2, each: part 4, seq 7, flags 1 (1: end the lease, 2: count in full), states 1, their names,
--         and with a loan its seq 7, per pair held 6, rest 6
-- Cost: O(parts), one write if something was granted, lent or reported.

local clock = clock_of(ARGV[1])
local key, q = KEYS[1], ask_of(ARGV[3])
local requests, wanted = unpack('>I4I2', ARGV[2])

-- missed reads the miss.
local function missed(s, names)
  if s == '' then return end
  local r, over = { used = {}, strict = q.strict }, 0
  r.part, r.clock, r.born, r.seq, over = unpack('>I4I6I6I7B', s)
  r.over = over == 1
  for i, name in ipairs(r.over and names or {}) do r.used[name] = unpack('>I6', s, 25 + (i - 1) * 12) end
  return r
end

-- reported reads the reports.
local function reported(s)
  local out, at = {}, 1
  while at <= #s do
    local r, flags, n = { used = {} }, 0, 0
    r.part, r.seq, r.born, flags, n, at = unpack('>I4I7I6BB', s, at)
    r.stale, r.over, r.strict = flags % 2 == 1, flags % 4 >= 2, flags >= 4
    for _ = 1, n do
      r.used[sub(s, at, at + 7)] = unpack('>I6', s, at + 8)
      at = at + 14
    end
    out[#out + 1] = r
  end
  return out
end

local m, home = split(), homes()
local rec = load(key, clock, read(key))
local h = home.open(rec, clock) or home.fresh(wanted)
if #h.lent == 0 then h.parts = wanted end
local before = cmsgpack.pack(h)
local sts, uses = measure(rec, q)
local names = m.names(q)
local reports, seen = reported(ARGV[5]), {}
for _, r in ipairs(reports) do
  home.collect(h, r)
  if not r.stale then seen[r.part] = max(seen[r.part] or 0, r.seq) end
end
for at = 1, #ARGV[6], 4 do seen[unpack('>I4', ARGV[6], at)] = WRAP * 32 end -- away: as read, whatever was lent

local granted, room, recalls, loan
if q.cost == 0 then
  granted, room, recalls = 0, home.room(h, q, names, uses, false), {}
  for i, l in ipairs(h.lent) do recalls[i] = { l = l, close = true } end
else
  granted, room, recalls, loan = home.decide(h, clock, q, uses, requests, missed(ARGV[4], names), #reports, seen)
end
local units = granted * q.cost
if units > 0 then charge_all(rec, q, sts, units) end

local out, calls = {}, 0
for i, pair in ipairs(q.pairs) do
  local st, lent = sts[i], 0
  for _, l in ipairs(h.lent) do lent = lent + home.counts(l, names[i], q.strict) end
  local last, newest = algorithms[q.kind].last(st)
  calls = max(calls, calls_at(clock, st[LAST], st[BEFORE], st[DURING]))
  local own = uses[i] + units
  local first = granted < requests and algorithms[q.kind].used(rec, st, q.strict) > 0
    and m.first(rec, st, own, q.strict, clock) or 0
  out[i] = pack('>I6I6I6I6I6I6', pair[1] - room[i], own, first, last, newest, lent)
end
local lents = { pack('>I2', #h.lent) }
for _, l in ipairs(h.lent) do
  lents[#lents + 1] = pack('>I4I6', l.part, l.born)
  for _, name in ipairs(names) do lents[#lents + 1] = pack('>I6', home.counts(l, name, q.strict)) end
end
local asks = { pack('>I2', #recalls) }
for _, r in ipairs(recalls) do
  local ids = {}
  for name in pairs(r.l.out) do ids[#ids + 1] = name end
  asks[#asks + 1] = pack('>I4I7BB', r.l.part, r.l.seq, (r.close and 1 or 0) + (q.strict and 2 or 0), #ids)
    .. table.concat(ids)
end
local lending = {}
if loan then
  lending[1] = pack('>I7', loan.seq)
  for i in ipairs(names) do lending[i + 1] = pack('>I6I6', loan.held[i], loan.rest[i]) end
end
if q.cost > 0 and (units > 0 or cmsgpack.pack(h) ~= before) then
  if #h.lent > 0 then home.keep(rec, h) end
  save(rec, clock)
end
return pack('>I6I4I3I2', clock, granted, calls, #h.lent > 0 and h.parts or 0) .. table.concat(out)
  .. table.concat(lents) .. table.concat(asks) .. table.concat(lending)
