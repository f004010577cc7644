-- inspect.lua: the function rl_inspect reports each state of a key that can still matter, for RL.INSPECT. It changes
-- nothing, but a replica refuses it like all other functions, because a replica's counts may be old. rl_look is the
-- same function with the flag no-writes, which is called only after a master has refused rl_inspect because it cannot
-- write.
--
-- returns a message `states`, see messages.lua
-- Cost: O(states), one search per log.
local lib = ...

local max, floor = math.max, math.floor
local record, rate, HOLDS = lib.record, lib.rate.at, lib.schema.HOLDS
local NOTHING = { last = -1, rate = 0, charge = 0, release = 0, holds = 0, lapsed = 0 } -- in place of held units

lib.inspect = record.guarded(function(key, clock)
  local rec = record.open(key, clock)
  local ending, now, split, states = record.ends(), rec.now, false, {}
  local function matters(st) return st and st.algorithm.matters_until(st) >= now end
  local function add(st, kind, used, held)
    local h, window, parameter = held or NOTHING, st.window, st.parameter
    if st.interval then
      window, parameter = floor(st.limit * st.interval / 1000000), 0
    end
    states[#states + 1] = {
      kind = kind, window = window, parameter = parameter, used = used,
      limit = h.last < st.last and st.limit or h.limit,
      rate = max(rate(now, st.last, st.rate), rate(now, h.last, h.rate)), ttl = ending + 1 - clock,
      held = h.charge + h.release, holds = h.holds, lapsed = h.lapsed,
      advanced = lib.advance.describe(rec, kind, st.parameter, st.window),
    }
  end
  for i = 1, rec.count do
    local st = rec[i]
    local kind = st.kind
    if st == rec.lease then
      split = true
    elseif st == rec.advances then
      ending = max(ending, st.ending)
    elseif kind > HOLDS and st.holds > 0 and not matters(record.find(kind - HOLDS, st.parameter, st.window)) then
      add(st, kind - HOLDS, 0, st)
    elseif kind < HOLDS and matters(st) then
      add(st, kind, st.algorithm.usage(st, rec, false), rec.held and record.find(HOLDS + kind, st.parameter, st.window))
    end
  end
  lib.advance.uncounted(rec, matters, function(kind, parameter, window, limit)
    local st = record.state(kind, parameter, window)
    st.limit = limit
    add(st, kind, 0)
  end)
  return cmsgpack.pack({ split = split, states = states })
end)
