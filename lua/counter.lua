-- counter.lua: RL.COUNTER, the sliding-window counter.
--
-- A window of W ms is cut into n sub-windows; sub-window k holds the ms t at which
-- floor(t * n / W) = k. n+1 counters are kept. All but the oldest count in full; the
-- oldest, k-n, by the part of it that the window still covers, or in full if strict.
-- With n = 1 this is the classic pair of the current and the previous window.

do

local function fresh(window, buckets)
  return { COUNTER, buckets, window, 0, 0, 0, 0, 0, [AREA] = string.rep('\0', (buckets + 1) * 5) }
end

local function counter(rec, st, k)
  return (unpack('>I5', area(rec, st), k % (st[BUCKETS] + 1) * 5 + 1))
end

-- held is the units of sub-window m as they are after used and charge.
local function held(rec, st, m)
  if m == st.k then return st.now end
  if m > st.was then return 0 end
  return counter(rec, st, m)
end

-- weigh is what the oldest sub-window's units count, e n-ths of a ms into the newest.
local function weigh(window, units, e) return floor(units * (window - e) / window) end

-- lighter returns the least e, from e on, at which units count at most left, or
-- window if there is none. It follows from the division, give or take one.
local function lighter(window, units, left, e)
  if units <= left then return e end
  e = max(e, floor(window - (left + 1) * window / units) + 1)
  while e > 0 and weigh(window, units, e - 1) <= left do e = e - 1 end
  while e < window and weigh(window, units, e) > left do e = e + 1 end
  return e
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
  st.k, st.was, st.oldest, st.rest = k, was, oldest, rest - oldest
  st.newest = was >= k - n and counter(rec, st, was) or 0
  st.now = was == k and st.newest or 0
  return (strict and oldest or weigh(window, oldest, rec.now * n % window)) + st.rest
end

-- retry returns the first ms at which what counts is at most room.
local function retry(rec, st, _, room, strict)
  local n, window, k = st[BUCKETS], st[WINDOW], st.k
  local oldest, rest = st.oldest, st.rest
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
  local n, k = st[BUCKETS], st.k
  local s = area(rec, st)
  if k > st.was then s = clear(s, n, st.was + 1, k) end
  local slot = k % (n + 1) * 5
  st.newest, st.now = st.now, st.now + units
  st.rest = st.rest + units
  st[AREA] = sub(s, 1, slot) .. pack('>I5', st.now) .. sub(s, slot + 6)
  st[FIRST] = st.oldest + st.rest
  st[PATCH], st[PATCHED] = st[AREA], st[OFFSET]
end

-- quick decides for a record that holds nothing but the classic pair of counters,
-- without making tables of it. s is the record, or empty. It returns the reply of
-- decide.lua, or nothing if the record is of another form.
local STATE = '>I5I6I2I2I6I5I5' -- from the header's limit to the end of the area
local FULL = '>c12' .. sub(STATE, 2)

local function quick(q, key, s, clock, requests)
  if q.buckets ~= 1 then return end
  local limit, window, ask = q.limit, q.window, q.ask
  local now, last, before, during = clock, 0, 0, 0
  local even, odd = 0, 0
  if s ~= '' then
    if sub(s, 1, 12) ~= q.shape then return end
    local _
    _, last, before, during, _, even, odd = unpack(STATE, s, 13)
    if last > now then now = last end
  end
  local k, was = floor(now / window), floor(last / window)
  local current, previous, newest = 0, 0, 0
  if was >= k - 1 then
    newest = was % 2 == 0 and even or odd
    if was == k then
      current, previous = newest, was % 2 == 0 and odd or even
    else
      previous = newest
    end
  end
  local used = (q.strict and previous or floor(previous * (window - now % window) / window)) + current
  local granted = floor((limit - used) / ask)
  if granted > requests then granted = requests elseif granted < 0 then granted = 0 end
  local units = granted * q.cost
  if units > 0 then
    newest, was = current, k
    before, during = count_call(now, last, before, during)
    last, current = now, current + units
    if k % 2 == 0 then even, odd = current, previous else even, odd = previous, current end
    s = pack(FULL, q.shape, limit, last, before, during, even + odd, even, odd)
    call('SET', key, s, 'PXAT', text_of((k + 2) * window - 1))
  elseif q.cost == 0 and granted > 0 then
    granted = requests
  end
  local room, retry = limit - ask, 0
  if granted < requests and used + units > room then
    local e = window
    if current <= room and not q.strict then e = lighter(window, previous, room - current, now % window) end
    if e < window then
      retry = k * window + e
    elseif q.strict then
      retry = (current <= room and k + 1 or k + 2) * window
    else
      retry = (k + 1) * window + lighter(window, current, room, 0)
    end
  end
  return pack(ONE, 0, granted, calls_at(clock, last, before, during), used, retry, last, newest)
end

algorithms[COUNTER] = {
  quick = quick, fresh = fresh, used = used, retry = retry, charge = charge,
  last = function(st) return st[LAST], st.newest end,
}

end
