-- counter.lua: RL.COUNTER, the sliding-window counter.
--
-- A window of w ms is divided into n sub-windows; sub-window k has the ms t for which floor(t * n / w) = k. n + 1 of
-- them count. All but the oldest count in full. The oldest, k - n, is weighted by the part of it that the window still
-- covers, or counts in full if strict. With n = 1 this is the classic pair of the current and the previous window.
--
-- A state's area has a running total for each sub-window: that after its last charge. What sub-windows have counted is
-- the difference of two totals, so a decision reads a few of them, however many there are.
local lib = ...

local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local min, max, floor, ceil, rep, concat = math.min, math.max, math.floor, math.ceil, lib.schema.rep, table.concat
local schema, record, rate_at, charged = lib.schema, lib.record, lib.rate.at, lib.rate.charged
local BYTES, WRAP, SHIFT, ask = schema.COUNTER_BYTES, schema.COUNTER_WRAP, schema.SHIFT, lib.ask
local FIELDS = 16 -- bytes
local MOST = 1000 -- sub-windows per window

-- The parameter of a state is its number of sub-windows.
local counter = lib.register({ kind = 2, additive = true, holdable = true, least = 1, most = 3, weighted = true,
  countable = WRAP - 1 })

function counter.valid(n, window) return lib.is_window(n, window) and n >= 1 and n <= min(window, MOST) end

function counter.life(n, window) return window + ceil(window / n) end

-- used: the units in all sub-windows. The area has n + 1 totals; that of sub-window k is in slot k % (n + 1).
local function read(st, s, at) st.last, st.rate, st.used = unpack('>I6I4I6', s, at) end
local function write(st) return pack('>I6I4I6', st.last, st.rate, st.used) end

-- An RL.COUNTER with one sub-window stores two counts among its fields, of the even and of the odd sub-window, and has
-- no stored area. In memory the two totals are its area.
local pair_fields = {
  bytes = 20, area = 0,
  read = function(st, s, at)
    local last, calls, even, odd = unpack('>I6I4I5I5', s, at)
    local total = even + odd
    if floor(last / st.window) % 2 == 0 then even = total else odd = total end
    st.last, st.rate, st.used = last, calls, total
    st.area = pack('>I5I5', even % WRAP, odd % WRAP)
  end,
  write = function(st)
    local even, odd = unpack('>I5I5', st.area)
    if floor(st.last / st.window) % 2 == 0 then
      even = (even - odd) % WRAP
      odd = st.used - even
    else
      odd = (odd - even) % WRAP
      even = st.used - odd
    end
    return pack('>I6I4I5I5', st.last, st.rate, even, odd)
  end,
}

function counter.fields(n)
  return n == 1 and pair_fields or { bytes = FIELDS, area = (n + 1) * BYTES, read = read, write = write }
end

-- total_after returns the stored total of sub-window k. The `ahead` - 1 totals after it are read along with it.
local function total_after(st, k, ahead)
  local slots = st.parameter + 1
  local slot = k % slots
  local s, at = record.bytes(st, slot * BYTES, BYTES, min(ahead, slots - slot) * BYTES)
  return (unpack('>I5', s, at))
end

-- filled returns an area in which the totals of the sub-windows from..to are `packed`.
local function filled(s, n, from, to, packed)
  if to - from >= n then return rep(packed, n + 1) end
  while from <= to do -- at most twice: the ring wraps around once
    local slot = from % (n + 1)
    local run = min(to - from, n - slot) + 1
    s = sub(s, 1, slot * BYTES) .. rep(packed, run) .. sub(s, (slot + run) * BYTES + 1)
    from = from + run
  end
  return s
end

-- usage also keeps in st: k, the sub-window of now; e, the time since it began, in n-ths of a ms; was, the sub-window
-- of the newest charge, before, the total after it, and newest, its units; total, that of k; and the units of the
-- oldest sub-window (oldest), of all others (rest), and of k (current).
function counter.usage(st, rec, strict)
  local n, window, now = st.parameter, st.window, rec.now
  local e = now * n
  local k, was = floor(e / window), floor(st.last * n / window)
  local total, oldest, rest, newest = 0, 0, 0, 0
  if k - was <= n then
    newest = total_after(st, was - 1, 3)
    total = total_after(st, was, 2)
    newest = (total - newest) % WRAP
    if k == was then
      rest = (total - total_after(st, k - n, 1)) % WRAP
      oldest = st.used - rest
    else
      oldest = total_after(st, k - n - 1, 2)
      rest = total_after(st, k - n, 1)
      oldest, rest = (rest - oldest) % WRAP, (total - rest) % WRAP
    end
    if oldest < 0 or oldest + rest > st.used then record.damaged(rec.key, 'counters that do not add up') end
  end
  st.k, st.e, st.was, st.oldest, st.rest, st.current = k, e % window, was, oldest, rest, was == k and newest or 0
  st.before, st.total, st.newest = total, total, newest
  if oldest == 0 or strict then return oldest + rest end
  return floor(oldest * (window - e % window) / window) + rest
end

-- lighter returns the least e, not below the given one, at which the weighted oldest sub-window counts at most `left`
-- units; window if there is none. e is the time since the newest sub-window began, in n-ths of a ms. The division gives
-- e to within one, because of rounding; the comparisons after it correct that.
local function lighter(window, oldest, left, e)
  local least = window - (left + 1) * window / oldest
  least = least - least % 1 + 1
  if least > e then e = least end
  if e > 0 and oldest * (window - e + 1) / window < left + 1 then e = e - 1 end
  if e < window and oldest * (window - e) / window >= left + 1 then e = e + 1 end
  return e
end

-- empties returns the first ms at which units that were charged in sub-window k weigh nothing.
local function empties(n, window, k, units, strict)
  local e = window
  if units == 0 then
    e = 0
  elseif not strict then -- as lighter(window, units, 0, 0)
    e = window - window / units
    e = e - e % 1 + 1
    if units * (window - e + 1) < window then e = e - 1 end
  end
  if n == 1 then return (k + 1) * window + e end
  local time = (k + n) * window + e -- in n-ths of a ms
  return (time + -time % n) / n
end

-- rest_at returns the units of all sub-windows but the oldest when k is the newest.
local function rest_at(st, k)
  local from, total, size = k - st.parameter, st.total, (st.parameter + 1) * BYTES
  if from >= st.was then return (total - st.before) % WRAP end
  local s, at = record.bytes(st, 0, size, size)
  return (total - unpack('>I5', s, at + from % (st.parameter + 1) * BYTES)) % WRAP
end

-- room_at searches for the first sub-window at which the rest leaves room. There is room before it ends, or when it
-- ends: by then the oldest is gone, and the next one is a part of that rest.
function counter.room_at(st, _, _, most, strict)
  local n, window, k, e, oldest, rest = st.parameter, st.window, st.k, st.e, st.oldest, st.rest
  if rest > most then
    local high, before = k + n, rest -- before is the rest one sub-window before k
    k, e, rest = k + 1, 0, 0
    while k < high do
      local mid = floor((k + high) / 2)
      local left = rest_at(st, mid)
      if left <= most then high, rest = mid, left else k, before = mid + 1, left end
    end
    oldest = before - rest
  end
  if oldest > most - rest then
    if not strict then e = lighter(window, oldest, most - rest, e) end
    if strict or e >= window then k, e = k + 1, 0 end
  end
  return ceil((k * window + e) / n)
end

function counter.charge(st, _, _, more)
  local n, k, was, packed = st.parameter, st.k, st.was, pack('>I5', st.total)
  local from = k == was and k or was + 1 -- the totals from here to k change
  st.total = (st.total + more) % WRAP
  st.current, st.rest = st.current + more, st.rest + more
  st.newest = st.current
  st.used = st.oldest + st.rest
  local slot, run, now = from % (n + 1), k - from, pack('>I5', st.total)
  if st.area or slot + run > n then
    local s = filled(st.area or record.area(st), n, from, k, packed)
    local offset = k % (n + 1) * BYTES
    st.area = sub(s, 1, offset) .. now .. sub(s, offset + BYTES + 1)
    if n > 1 then st.patch, st.patch_at = st.area, 0 end
  else
    st.patch, st.patch_at = rep(packed, run) .. now, slot * BYTES
  end
end

function counter.empty_at(st, _, strict) return counter.empty_after(st, st.last, 0, st.newest, strict) end

function counter.empty_after(st, ms, _, units, strict)
  return empties(st.parameter, st.window, floor(ms * st.parameter / st.window), units, strict)
end

-- late charges units at a ms before the newest charge, or in the same ms.
function counter.late(st, _, ms, units)
  local n = st.parameter
  local k, was = floor(ms * n / st.window), floor(st.last * n / st.window)
  if was - k > n then return end
  local s = st.area or record.area(st)
  for i = k, was do
    local slot = i % (n + 1) * BYTES
    s = sub(s, 1, slot) .. pack('>I5', (unpack('>I5', s, slot + 1) + units) % WRAP) .. sub(s, slot + BYTES + 1)
  end
  st.area, st.used = s, st.used + units
  if n > 1 then st.patch, st.patch_at = s, 0 end
end

-- append is described in algorithms.lua. It composes the totals in the order of their sub-windows, and then turns them
-- to their slots.
function counter.append(st, _, moments, units)
  local n, window, k, total = st.parameter, st.window, st.k, st.total
  local oldest, newest, old = k - n, max(st.was, k - n - 1), st.area or record.area(st)
  st.used = st.oldest + st.rest
  local pieces, first = {}, oldest % (n + 1) * BYTES
  if newest >= oldest then pieces[1] = sub(sub(old, first + 1) .. sub(old, 1, first), 1, (newest - oldest) * BYTES) end
  for i, ms in ipairs(moments) do
    local at = floor(ms * n / window)
    if at > newest then
      pieces[#pieces + 1] = rep(pack('>I5', total), at - max(newest, oldest))
      newest = at
    end
    total = (total + units[i]) % WRAP
    if at >= oldest then st.used = st.used + units[i] end
  end
  pieces[#pieces + 1] = pack('>I5', total)
  local s = concat(pieces)
  st.area = sub(s, (n + 1) * BYTES - first + 1) .. sub(s, 1, (n + 1) * BYTES - first)
end

function counter.matters_until(st)
  local n, window = st.parameter, st.window
  return ceil((floor(st.last * n / window) + n + 1) * window / n) - 1
end

-- What straight passes to room_at.
local pair = { parameter = 1, window = 0, k = 0, e = 0, oldest = 0, rest = 0 }

-- straight is described with lib.ask. With several sub-windows, it leaves denials to the operations.
function counter.straight(q, s, at, begin, requests, head)
  local n, window, limit, needs, strict = q.parameter, q.window, q.limit, q.needs, q.strict
  local clock, more = ask.clock, ask.more
  local now, bound = clock, false
  if more then now, bound = more.now, more.bound end
  local stop, last, calls, rest, oldest, current, newest, total = begin, 0, 0, 0, 0, 0, 0, 0
  if s ~= '' then
    if n == 1 then
      last, calls, oldest, newest = unpack('>I6I4I5I5', s, at)
    else
      stop = begin + (n + 1) * BYTES
      if stop > #s + 1 then return end
      last, calls, rest = unpack('>I6I4I6', s, at)
    end
    if last > now then
      if q.only_by_clock or last > clock + schema.YEAR then return end
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
    local slots, all = n + 1, rest
    local slot = was % slots
    if slot > 0 and slot < n and not moves then -- nearly always
      newest, total, rest = unpack('>I5I5I5', s, begin + (slot - 1) * BYTES)
    else
      newest = unpack('>I5', s, begin + (was - 1) % slots * BYTES)
      total = unpack('>I5', s, begin + slot * BYTES)
      rest = unpack('>I5', s, begin + (k + 1) % slots * BYTES)
      if moves then oldest = (rest - unpack('>I5', s, begin + k % slots * BYTES)) % WRAP end
    end
    newest, rest = total - newest, total - rest
    if newest < 0 then newest = newest + WRAP end -- % takes longer
    if rest < 0 then rest = rest + WRAP end
    if not moves then oldest, current = all - rest, newest end
    if oldest < 0 or oldest + rest > all then return end
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
  local units = granted * q.cost
  if granted == requests or limit >= used + units + needs then
    if q.cost == 0 and granted > 0 then granted = requests end
  else -- find when there is room for one more
    pair.window, pair.k, pair.e, pair.oldest, pair.rest = window, k, e, oldest, current + units
    ask.room = counter.room_at(pair, nil, 0, limit - needs, strict)
  end
  if units == 0 then
    return granted * SHIFT + rate_at(clock, last, calls), used, empties(n, window, was, newest, strict), false
  end
  local rate, rated = charged(now, last, calls, clock)
  local fields
  current, ask.moves = current + units, moves
  if n > 1 then
    local slot = k % (n + 1) * BYTES
    local area = s == '' and rep('\0', (n + 1) * BYTES) or sub(s, begin, stop - 1)
    if moves and s ~= '' then area = filled(area, n, was + 1, k, pack('>I5', total)) end
    area = sub(area, 1, slot) .. pack('>I5', (total + units) % WRAP) .. sub(area, slot + BYTES + 1)
    fields = pack('>I6I4I6', now, rate, oldest + rest + units)
    if head then fields = head .. fields .. sub(s, at + FIELDS, begin - 1) .. area .. sub(s, stop) end
    ask.area, ask.ends = area, ceil((k + n + 1) * window / n) - 1
  else
    local even, odd = oldest, current
    if k % 2 == 0 then even, odd = current, oldest end
    fields = pack('>c0I6I4I5I5', head or '', now, rate, even, odd)
    ask.area, ask.ends = '', (k + 2) * window - 1
  end
  return granted * SHIFT + rated, used, empties(n, window, k, current, strict), fields
end
