-- counter.lua: RL.COUNTER, the sliding-window counter.
--
-- A window of W ms is cut into n sub-windows; sub-window k holds the ms t at which
-- floor(t * n / W) = k. n+1 counters are kept. All but the oldest count in full; the
-- oldest, k-n, by the part of it that the window still covers, or in full if strict.
-- With n = 1 this is the classic pair of the current and the previous window.

do

local function fresh(window, buckets)
  return state(COUNTER, buckets, window, string.rep('\0', (buckets + 1) * 5))
end

local function counter(rec, st, k)
  return (unpack('>I5', area(rec, st), k % (st[BUCKETS] + 1) * 5 + 1))
end

-- held is the units of sub-window m as they are after used and charge.
local function held(rec, st, m)
  if m == st[K] then return st[NOW] end
  if m > st[WAS] then return 0 end
  return counter(rec, st, m)
end

-- used returns what counts now. It remembers the sub-windows of now and of the last
-- charge, the units of the oldest, and those of all the others.
local function used(rec, st, strict)
  local n, window = st[BUCKETS], st[WINDOW]
  local k, was = floor(rec.now * n / window), floor(st[LAST] * n / window)
  local rest = st[FIRST]
  if k - was > n then
    rest = 0
  else
    for j = was - n, k - n - 1 do rest = rest - counter(rec, st, j) end
  end
  local oldest = k - n <= was and counter(rec, st, k - n) or 0
  st[K], st[WAS], st[OLDEST], st[REST] = k, was, oldest, rest - oldest
  st[HELD] = was >= k - n and counter(rec, st, was) or 0
  st[NOW] = was == k and st[HELD] or 0
  return (strict and oldest or floor(oldest * (window - rec.now * n % window) / window)) + st[REST]
end

-- retry returns the first ms at which what counts is at most room.
local function retry(rec, st, _, room, strict)
  local n, window, k = st[BUCKETS], st[WINDOW], st[K]
  local oldest, rest = st[OLDEST], st[REST]
  local e = rec.now * n % window
  while true do
    local left = room - rest
    if left >= 0 then
      if oldest <= left then break end
      if not strict then
        e = lighter(window, oldest, left, e)
        if e < window then break end
      end
    end
    k, e = k + 1, 0
    oldest = held(rec, st, k - n)
    rest = rest - oldest
  end
  return math.ceil((k * window + e) / n)
end

-- clear empties the counters of sub-windows from..to, at most all of them.
local function clear(s, n, from, to)
  if to - from >= n then return string.rep('\0', (n + 1) * 5) end
  while from <= to do
    local slot = from % (n + 1)
    local run = min(to - from, n - slot) + 1
    s = sub(s, 1, slot * 5) .. string.rep('\0', run * 5) .. sub(s, (slot + run) * 5 + 1)
    from = from + run
  end
  return s
end

local function charge(rec, st, _, units)
  local n, k = st[BUCKETS], st[K]
  local s = area(rec, st)
  if k > st[WAS] then s = clear(s, n, st[WAS] + 1, k) end
  local slot = k % (n + 1) * 5
  st[HELD], st[NOW] = st[NOW], st[NOW] + units
  st[REST] = st[REST] + units
  st[AREA] = sub(s, 1, slot) .. pack('>I5', st[NOW]) .. sub(s, slot + 6)
  st[FIRST] = st[OLDEST] + st[REST]
  st[PATCH], st[PATCHED] = st[AREA], st[OFFSET]
end

algorithms[COUNTER] = {
  fresh = fresh, used = used, retry = retry, charge = charge,
  last = function(st) return st[LAST], st[HELD] end,
}

end
