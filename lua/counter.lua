-- counter.lua: RL.COUNTER, the sliding-window counter.
--
-- A window of w ms is divided into n sub-windows; sub-window k has the ms t for which floor(t * n / w) = k. n + 1 counters are
-- kept. All but the oldest count in full. The oldest, k - n, is weighted by the part of it that the window still covers, or
-- counts in full if strict. With n = 1 this is the classic pair of the current and the previous window.
local lib = ...

local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local max, min, floor, ceil, zeros = math.max, math.min, math.floor, math.ceil, string.rep
local record, rate_at, charged = lib.record, lib.rate.at, lib.rate.charged
local BYTES, FIELDS = lib.layout.COUNTER_BYTES, lib.layout.FIELDS[lib.layout.COUNTER].bytes
local counter = { additive = true }
lib.counter = counter

-- held returns the counter of sub-window k. Those after it, up to sub-window last, are read along with it.
local function held(st, k, last)
  local slots = st.buckets + 1
  local slot = k % slots
  local s, at = record.bytes(st, slot * BYTES, BYTES, min(last - k + 1, slots - slot) * BYTES)
  return (unpack('>I5', s, at))
end

-- usage also keeps in st: k, the sub-window of now; e, the time since it began, in n-ths of a ms; was, the sub-window of the
-- newest charge; and the units of the oldest sub-window (oldest), of all others (rest), and of k (current).
function counter.usage(st, rec, strict)
  local n, window, now = st.buckets, st.window, rec.now
  local e = now * n
  local k = floor(e / window)
  local was, rest = floor(st.last * n / window), st.used
  if k - was > n then
    rest = 0
  else
    for j = was - n, k - n - 1 do rest = rest - held(st, j, k - n) end
  end
  local oldest = k - n <= was and held(st, k - n, k - n) or 0
  local newest = was >= k - n and held(st, was, was) or 0
  rest = rest - oldest
  if rest < 0 then record.damaged(rec.key, 'counters that do not add up') end
  st.k, st.e, st.was, st.oldest, st.rest, st.current = k, e % window, was, oldest, rest, was == k and newest or 0
  st.reported_last, st.reported_newest = st.last, newest
  if oldest == 0 or strict then return oldest + rest end
  return floor(oldest * (window - e % window) / window) + rest
end

-- lighter returns the least e, not below the given one, at which the weighted oldest sub-window counts at most `left` units;
-- window if there is none. e is the time since the newest sub-window began, in n-ths of a ms. The division gives e to within
-- one, because of rounding; the comparisons after it correct that.
local function lighter(window, oldest, left, e)
  if oldest <= left then return e end
  e = max(e, floor(window - (left + 1) * window / oldest) + 1)
  if e > 0 and floor(oldest * (window - e + 1) / window) <= left then e = e - 1 end
  if e < window and floor(oldest * (window - e) / window) > left then e = e + 1 end
  return e
end

-- room_at goes through the sub-windows to come; after n + 1 of them nothing counts.
function counter.room_at(st, rec, _, most, strict)
  local n, window, k, e, oldest, rest = st.buckets, st.window, st.k, st.e, st.oldest, st.rest
  for _ = 0, n + 1 do
    local left = most - rest
    if left >= 0 then
      if oldest <= left then return ceil((k * window + e) / n) end
      if not strict then
        e = lighter(window, oldest, left, e)
        if e < window then return ceil((k * window + e) / n) end
      end
    end
    k, e = k + 1, 0
    if k - n == st.k then oldest = st.current elseif k - n > st.was then oldest = 0 else oldest = held(st, k - n, st.was) end
    rest = rest - oldest
  end
  record.damaged(rec.key, 'counters that do not add up')
end

-- cleared returns an area in which the counters of the sub-windows from..to, which may be all of them, are 0.
local function cleared(s, n, from, to)
  if to - from >= n then return zeros('\0', (n + 1) * BYTES) end
  while from <= to do -- at most twice: the ring wraps around once
    local slot = from % (n + 1)
    local run = min(to - from, n - slot) + 1
    s = sub(s, 1, slot * BYTES) .. zeros('\0', run * BYTES) .. sub(s, (slot + run) * BYTES + 1)
    from = from + run
  end
  return s
end

function counter.charge(st, rec, _, more)
  local n, k = st.buckets, st.k
  local offset = k % (n + 1) * BYTES
  st.reported_last, st.reported_newest = rec.now, st.current
  st.current, st.rest = st.current + more, st.rest + more
  st.used = st.oldest + st.rest
  local packed = pack('>I5', st.current)
  if k == st.was and not st.area then
    st.patch, st.patch_at = packed, offset
  else
    local s = cleared(st.area or record.area(st), n, st.was + 1, k)
    st.area = sub(s, 1, offset) .. packed .. sub(s, offset + BYTES + 1)
    if n > 1 then st.patch, st.patch_at = st.area, 0 end
  end
end

function counter.matters_until(st)
  local n, window = st.buckets, st.window
  return ceil((floor(st.last * n / window) + n + 1) * window / n) - 1
end

-- What straight passes to room_at.
local pair = { buckets = 1, window = 0, k = 0, e = 0, was = 0, oldest = 0, rest = 0, current = 0 }

-- straight has the arguments and results of slide.straight. With several sub-windows, it leaves denials to the operations.
function counter.straight(q, i, s, at, begin, clock, now, requests, bound, head)
  local n, window, limit, needs, strict = q.buckets, q.windows[i], q.limits[i], q.needs, q.strict
  local stop, last, calls, rest, oldest, current, newest = begin, 0, 0, 0, 0, 0, 0
  if s ~= '' then
    if n == 1 then
      last, calls, oldest, newest = unpack('>I6I4I5I5', s, at)
    else
      stop = begin + (n + 1) * BYTES
      if stop > #s + 1 then return end
      last, calls, rest = unpack('>I6I4I6', s, at)
    end
    if last > now then
      if q.only_by_clock or last > clock + lib.layout.YEAR then return end
      now = last
    end
  end
  local e, was = now * n, last * n
  local rest_of_window = e % window
  local k = (e - rest_of_window) / window
  was, e = (was - was % window) / window, rest_of_window
  local moves = k ~= was
  if k - was > n then
    rest, oldest, newest = 0, 0, 0
  elseif n == 1 then
    if was % 2 == 0 then oldest, newest = newest, oldest end
    if moves then oldest = newest else rest, current = newest, newest end
  else
    for j = was - n, k - n - 1 do rest = rest - unpack('>I5', s, begin + j % (n + 1) * BYTES) end
    oldest = unpack('>I5', s, begin + (k - n) % (n + 1) * BYTES)
    newest = was == k - n and oldest or unpack('>I5', s, begin + was % (n + 1) * BYTES)
    if not moves then current = newest end
    rest = rest - oldest
    if rest < 0 then return end
  end
  local used = rest
  if oldest > 0 then used = used + (strict and oldest or floor(oldest * (window - e) / window)) end
  local granted = (bound or limit) - used
  if granted >= requests * needs then
    granted = requests
  elseif bound or n > 1 then
    return
  else
    granted = granted > 0 and (granted - granted % needs) / needs or 0
  end
  local units, rated, fields, area = granted * q.cost
  if units > 0 then
    calls, rated = charged(now, last, calls, clock)
    newest, current, last = current, current + units, now
    if n > 1 then
      local slot = k % (n + 1) * BYTES
      area = sub(s, begin, stop - 1)
      if moves then area = cleared(area, n, was + 1, k) end
      area = sub(area, 1, slot) .. pack('>I5', current) .. sub(area, slot + BYTES + 1)
      fields = pack('>I6I4I6', now, calls, oldest + rest + units)
      if head then fields = head .. fields .. sub(s, at + FIELDS, begin - 1) .. area .. sub(s, stop) end
    else
      local even, odd = oldest, current
      if k % 2 == 0 then even, odd = current, oldest end
      fields = pack('>c0I6I4I5I5', head or '', now, calls, even, odd)
    end
  end
  local room = 0
  if granted == requests or limit >= used + units + needs then
    if q.cost == 0 and granted > 0 then granted = requests end
  else -- find when there is room for one more
    pair.window, pair.k, pair.e, pair.was, pair.oldest, pair.rest, pair.current = window, k, e, k, oldest, current, current
    room = counter.room_at(pair, nil, 0, limit - needs, strict)
  end
  local ends = n == 1 and (k + 2) * window or ceil((k + n + 1) * window / n)
  return granted, rated or rate_at(clock, last, calls), used, room, last, newest, fields, ends - 1, moves, area, stop
end
