-- inspect.lua: the function rl_inspect reports each state of a key that can still matter, for RL.INSPECT. It changes nothing,
-- but a replica refuses it like all other functions, because a replica's counts may be old. rl_look is the same function with the
-- flag no-writes, which is called only after a master has refused rl_inspect because it cannot write.
--
-- returns one string: 1 byte, 1 if the key's other shards have to be asked as well; then per state: kind 1 byte, window 5,
--         parameter 5, used 6, limit 5, rate 3, the key's time to live in ms 6, units held 6, holds 3, lapsed holds 4.
--         For a rate, window is the ms in which its limit drains, and parameter is 0. For leases of RL.ACQUIRE, window is 0.
-- Cost: O(states), one search per log.
local lib = ...

local pack, max, min, floor, concat = struct.pack, math.max, math.min, math.floor, table.concat
local record, rate, HOLDS = lib.record, lib.rate.at, lib.layout.HOLDS
local NOTHING = { last = -1, rate = 0, charge = 0, release = 0, holds = 0, lapsed = 0 } -- in place of held units

lib.inspect = record.guarded(function(key, clock)
  local rec = record.open(key, clock)
  local ending, now, out = record.ends(), rec.now, { '\0' }
  local function matters(st) return st and st.algorithm.matters_until(st) >= now end
  local function row(st, kind, window, parameter, used, held)
    local h = held or NOTHING
    out[#out + 1] = pack('>BI5I5I6I5I3I6I6I3I4', kind, window, parameter, used, h.last < st.last and st.limit or h.limit,
      max(rate(now, st.last, st.rate), rate(now, h.last, h.rate)), ending + 1 - clock, h.charge + h.release, h.holds, h.lapsed)
  end
  for i = 1, rec.count do
    local st = rec[i]
    local kind, window, parameter = st.kind, st.window, st.parameter
    if st == rec.lease then
      out[1] = '\1'
    elseif kind > HOLDS and st.holds > 0 and not matters(record.find(kind - HOLDS, parameter, window)) then
      row(st, kind - HOLDS, window, parameter, 0, st)
    elseif kind < HOLDS and matters(st) then
      local used, held = st.algorithm.usage(st, rec, false), rec.held and record.find(HOLDS + kind, parameter, window)
      if window == 0 then window, parameter = min(floor(st.limit * st.interval / 1000000), 2 ^ 40 - 1), 0 end
      row(st, kind, window, parameter, used, held)
    end
  end
  return concat(out)
end)
