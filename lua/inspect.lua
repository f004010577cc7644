-- inspect.lua: the function rl_inspect reports each state of a key that can still matter, for RL.INSPECT. It changes
-- nothing; a replica refuses it all the same, as it does the others: its counts are old.
--
-- KEYS[1] the stored key
-- ARGV[1] the clock in ms; empty: the node's own
-- returns one string: 1 byte, 1 if shards of the key have to be asked, too; then per state: kind 1 byte, window 5,
--         buckets 2, used 6, limit 5, rate 3, the key's time to live in ms 6. Of a rate, window is the ms in which its
--         limit drains, and buckets is 0.
-- Cost: O(states), one search per log.
local lib = ...

local pack, min, floor, concat = struct.pack, math.min, math.floor, table.concat
local record = lib.record

function lib.inspect(keys, args)
  local clock, key = lib.clock_of(args[1]), keys[1]
  local rec = record.open(key, clock)
  local ending, now, out = record.ends(), rec.now, { '\0' }
  for i = 1, rec.count do
    local st = rec[i]
    local kind, algorithm = st.kind, lib.algorithms[st.kind]
    if st == rec.lease then
      out[1] = '\1'
    elseif algorithm.matters_until(st) >= now then
      local used, window, buckets = algorithm.usage(st, rec, false), st.window, st.buckets
      if window == 0 then window, buckets = min(floor(st.limit * st.interval / 1000000), 2 ^ 40 - 1), 0 end
      out[#out + 1] = pack('>BI5I2I6I5I3I6', kind, window, buckets, used, st.limit, lib.rate.at(now, st.last, st.rate),
        ending + 1 - clock)
    end
  end
  return concat(out)
end
lib.inspect = record.guarded(lib.inspect)
