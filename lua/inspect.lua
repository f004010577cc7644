-- inspect.lua: what RL.INSPECT tells of each state of a key that can still matter. It changes nothing.
--
-- KEYS[1] the stored key
-- ARGV[1] the clock in ms; empty: the node's own
-- returns one string: 1 byte, 1 if parts of the key have to be asked, too, then per state: kind 1 byte, window 5, buckets 2, used 6, limit 5,
--         rate 3, the key's time to live in ms 6
-- Cost: O(states), one search per log.

local clock = clock_of(ARGV[1])
local rec = load(KEYS[1], clock, read(KEYS[1]))
local out, now, ending = { find(rec, HOME, 0, 1) and '\1' or '\0' }, rec.now, 0
for _, st in ipairs(rec.states) do ending = max(ending, ends(st)) end
for _, st in ipairs(rec.states) do
  if st[KIND] < HOME and ends(st) >= now then
    local used = algorithms[st[KIND]].used(rec, st, false)
    local window, buckets = st[WINDOW], st[BUCKETS]
    if st[KIND] == THROTTLE then -- the ms in which its limit drains
      window, buckets = min(floor(st[LIMIT] * st[CAP] / 1000000), 2 ^ 40 - 1), 0
    end
    out[#out + 1] = pack('>BI5I2I6I5I3I6', st[KIND], window, buckets, used, st[LIMIT],
      calls_at(now, st[LAST], st[BEFORE], st[DURING]), ending + 1 - clock)
  end
end
return table.concat(out)
