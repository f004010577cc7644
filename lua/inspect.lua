-- inspect.lua: what RL.INSPECT tells of each state of a key. It changes nothing.
--
-- KEYS[1] the stored key
-- ARGV[1] the clock in ms; empty: the node's own
-- returns one string, per state: kind 1 byte, window 5, buckets 2, used 6, limit 5,
--         rate 3, time to live in ms 6
-- Cost: O(states), one search per log.

local clock = clock_of(ARGV[1])
local rec = load(KEYS[1], clock, read(KEYS[1]))
local out = {}
for i, st in ipairs(rec.states) do
  local used = algorithms[st[KIND]].used(rec, st, false)
  out[i] = pack('>BI5I2I6I5I3I6', st[KIND], st[WINDOW], st[BUCKETS], used, st[LIMIT],
    calls_at(clock, st[LAST], st[BEFORE], st[DURING]), max(ends(st) - clock, 0))
end
return table.concat(out)
