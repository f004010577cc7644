-- recall.lua: asks a part to give back what it has not used and to report, or to forget all, or only to report. It
-- may be sent any number of times.
--
-- KEYS[1] the part's stored key
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] what to do 1 byte (0: recall, 1: forget, 2: report only), seq 7, flags 1 (1: end the lease, 2: count in
--         full), then 8 bytes per state to report on, see split.lua
-- returns seq 7, born 6, flags 1 (1: stale, 2: its lease is over, 4: counted in full), ms until its lease ends 6,
--         per state what is used 6, ms until the first of it is not 6, what is held 6, limit as last
--         charged 5, rate 3
-- Cost: O(states), one write if something changes.

local clock = clock_of(ARGV[1])
local what, seq, flags = unpack('>BI7B', ARGV[2])
local key, close, strict = KEYS[1], flags % 2 == 1, flags >= 2
local rec = load(key, clock, read(key))
local m, part = split(), parts()
local p, stale, changed
if what == 0 then
  p, stale, changed = part.recall(rec, clock, seq, close)
  if changed then save(rec, clock) end
else
  p = m.open(rec, PART)
  stale = p ~= nil and seq < p.seq
  if what == 1 and not stale then
    p = { born = max(clock, p and p.born or 0) + 1, seq = seq, pairs = '', strict = false,
      held = {}, rest = {}, taken = 0, lease = 0 }
    rec = { key = key, states = {}, now = clock, whole = true }
    part.keep(rec, p, clock + 2 * LEASE)
    save(rec, clock)
  end
end
local live = part.live(p, rec, clock)
local held = {}
if p then m.each(p.pairs, function(i, name) held[name] = p.held[i] end) end
local out = { pack('>I7I6BI6', seq, p and p.born or 0, (stale and 1 or 0) + (p and not stale and not live and 2 or 0)
  + (strict and 4 or 0), live and p.lease - clock or 0) }
for at = 10, #ARGV[2], 8 do
  local name = sub(ARGV[2], at, at + 7)
  local used, first = m.used(rec, name, strict, clock)
  local kind, window, buckets = unpack('>BI5I2', name)
  local st = find(rec, kind, window, buckets)
  out[#out + 1] = pack('>I6I6I6I5I3', used, first, held[name] or 0, st and st[LIMIT] or 0,
    st and calls_at(clock, st[LAST], st[BEFORE], st[DURING]) or 0)
end
return table.concat(out)
