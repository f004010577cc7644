-- throttle.lua: CL.THROTTLE, the generic cell rate algorithm as redis-cell has it.
--
-- A state is one time: when all that was charged has drained, in ms and ns of it.
-- Units drain at a constant rate, one per interval; a request is admitted when its
-- own drain within the tolerance. Times are in ns, exact in doubles up to 104 days.

do

local NS = 1000000 -- per ms

local function left_at(st, clock)
  return max((st[FIRST] - clock) * NS + st[COUNT], 0)
end

-- used returns the units that have not drained, a part of one counted whole.
local function used(rec, st)
  return math.ceil(left_at(st, rec.now) / st[CAP])
end

-- decide answers an entry of its own kind: interval, tolerance and increment, the
-- cost in ns, stand in the question. It returns the reply of batch.lua, in which
-- used and retry are the ms and ns at which what was charged before has drained.
local function decide(q, key, s, clock, requests)
  local rec = load(key, clock, s)
  local st = find(rec, THROTTLE, 0, 1)
  if not st then
    st = state(THROTTLE, 1, 0, '')
    st[CAP] = q.interval
  end
  local ms, ns, left, granted = st[FIRST], st[COUNT], left_at(st, clock), requests
  if q.increment > 0 then
    granted = max(min(requests, floor((q.tolerance - left) / q.increment)), 0)
  elseif left > q.tolerance then
    granted = 0
  end
  if granted > 0 and q.increment > 0 then
    left = left + granted * q.increment
    st[FIRST], st[COUNT], st[CAP] = clock + floor(left / NS), left % NS, q.interval
    st[BEFORE], st[DURING] = count_call(rec.now, st[LAST], st[BEFORE], st[DURING])
    st[LAST], st[LIMIT] = rec.now, min(floor(q.tolerance / q.interval), 1e12)
    if not st[OFFSET] then rec.states[#rec.states + 1] = st end
    save(rec, clock)
  end
  return pack('>BI4I3I6I6I12', 0, granted, calls_at(clock, st[LAST], st[BEFORE], st[DURING]), ms, ns, 0)
end

algorithms[THROTTLE] = { decide = decide, used = used }

end
