-- slide.lua: RL.SLIDE, the exact sliding-window log.
--
-- A state's area is a ring of entries, one for each ms in which something was admitted: the ms, and the running total
-- after it. An entry counts while now <= its ms + window. So the units in use are the difference of two running totals,
-- and a decision needs one search for the oldest entry that counts, whatever the cost of the request and the length of
-- the log.
local lib = ...

local call, unpack, pack, sub, format = redis.call, struct.unpack, struct.pack, string.sub, string.format
local min, floor, ceil = math.min, math.floor, math.ceil
local bytes, rate_at, charged = lib.record.bytes, lib.rate.at, lib.rate.charged
local ENTRY, TOTAL_AT, FIELDS = lib.schema.ENTRY_BYTES, lib.schema.TOTAL_AT, 37 -- bytes
local WRAP, SHIFT = lib.schema.WRAP, lib.schema.SHIFT
local YEAR, UNITS, DELAY, SLOTS, GRID =
  lib.schema.YEAR, lib.schema.UNITS, lib.schema.DELAY, lib.schema.SLOTS, lib.schema.GRID
local record, ask = lib.record, lib.ask
local AHEAD = 32 * ENTRY -- bytes read at a time from the ring of a patched record
local FRONT = 16 -- oldest entries that the fast path of a patched record looks at

-- most: a log with a grid may matter for more than one window.
local slide = lib.register({
  kind = 1, additive = true, holdable = true, least = 1, most = 2, valid = lib.is_window,
})
lib.slide = slide

-- count, slots, first: the ring's number of entries, its number of slots, and the slot of its oldest entry. base,
-- total: the running totals before the oldest entry and after the newest. newest: the ms of the newest entry.
local form = {
  bytes = FIELDS, slot = ENTRY,
  read = function(st, s, at)
    st.last, st.rate, st.count, st.slots, st.first, st.base, st.total, st.newest = unpack('>I6I4I3I3I3I6I6I6', s, at)
  end,
  write = function(st)
    return pack('>I6I4I6I3I6I6I6', st.last, st.rate, st.count * SHIFT + st.slots, st.first, st.base, st.total,
      st.newest)
  end,
}
function slide.fields() return form end

-- dated returns the ms that is stored for units admitted at now. With limits above 65,536 it is rounded up to a grid,
-- so that a log has at most some 65,537 entries.
function slide.dated(now, limit, window)
  return limit > 65536 and now + -now % ceil(window / 65536) or now
end

-- entry returns the ms and the running total of the i-th entry, from 0. Those of the newest entry are read from the
-- fields, because after a charge it may not be in the ring yet.
local function entry(st, i)
  if i >= st.count - 1 then return st.newest, st.total end
  local behind = st.tail and st.count - #st.tail / ENTRY or i + 1 -- entries before the tail
  if i >= behind then return unpack('>I6I6', st.tail, (i - behind) * ENTRY + 1) end
  local slot = (st.first + i) % st.slots
  local s, at = bytes(st, slot * ENTRY, ENTRY, AHEAD)
  return unpack('>I6I6', s, at)
end

-- seek returns the first entry from low to high whose ms is at least `least` or, if base is given, whose total is so
-- much above base, as that of high is. It is likely to be near low, so the first steps are short.
local function seek(st, low, high, least, base)
  local step = 1
  while low < high do
    local mid = min(low + step - 1, floor((low + high) / 2))
    local ms, total = entry(st, mid)
    if (base and (total - base) % WRAP or ms) >= least then high = mid else low, step = mid + 1, 2 * step end
  end
  return low
end

-- usage returns the units in use. It sets gone, the number of entries that no longer count, and live, the running total
-- before the first entry that counts.
function slide.usage(st, rec)
  local gone, live, oldest, _ = st.count, st.base, rec.now - st.window
  if st.newest >= oldest then gone = seek(st, 0, gone - 1, oldest) end
  if gone > 0 then _, live = entry(st, gone - 1) end
  st.gone, st.live = gone, live
  return (st.total - live) % WRAP
end

-- room_at returns the ms at which `over` units have left the window. Each entry has at least one unit.
function slide.room_at(st, _, over)
  local ms = entry(st, seek(st, st.gone, min(st.gone + over, st.count) - 1, over, st.live))
  return ms + st.window + 1
end

-- charge admits units: the log becomes the entries that count, followed by a new newest entry, the patch. If the newest
-- entry so far has the same ms or a later one, the new entry replaces it and keeps its ms.
function slide.charge(st, rec, limit, units)
  if st.tail then
    st.area = slide.straighten(st)
    st.tail = false
  end
  local ms, kept = slide.dated(rec.now, limit, st.window), st.count - st.gone
  if kept > 0 and st.newest >= ms then ms, kept = st.newest, kept - 1 end
  st.first = st.slots > 0 and (st.first + st.gone) % st.slots or 0
  st.count, st.base, st.total, st.newest, st.gone = kept + 1, st.live, (st.total + units) % WRAP, ms, 0
  st.patch = pack('>I6I6', ms, st.total)
  if rec.inline then return end
  if st.count > st.slots or st.slots > 256 and st.count * 4 < st.slots then
    rec.rewrite = true -- to grow, or to shrink
  else
    st.patch_at = (st.first + kept) % st.slots * ENTRY
  end
end

-- straighten returns the ring's entries in order, with the tail or the patch behind them, and makes the ring begin at
-- slot 0, without spare slots.
function slide.straighten(st)
  local s, behind = '', st.tail or st.patch or ''
  local kept = st.count - #behind / ENTRY
  if kept > 0 then
    local size, from, to = st.slots * ENTRY, st.first * ENTRY, (st.first + kept) * ENTRY
    local text, at = bytes(st, 0, size, size)
    s = sub(text, at + from, at + min(to, size) - 1)
    if to > size then s = s .. sub(text, at, at + to - size - 1) end
  end
  st.first, st.slots = 0, st.count
  return s .. behind
end

-- append charges units at several moments, which are in order: moments[i] is the ms of units[i]. usage must come first.
-- The entries become the log's tail, which stays in memory unless the record is saved: a denial does not copy the log.
function slide.append(st, limit, moments, units)
  st.first = st.slots > 0 and (st.first + st.gone) % st.slots or 0
  local kept, tail = st.count - st.gone, {}
  st.base, st.gone = st.live, 0
  for i, moment in ipairs(moments) do
    local ms = slide.dated(moment, limit, st.window)
    if kept + #tail > 0 and st.newest >= ms then
      ms = st.newest
      if #tail > 0 then tail[#tail] = nil else kept = kept - 1 end
    end
    st.total, st.newest = (st.total + units[i]) % WRAP, ms
    tail[#tail + 1] = pack('>I6I6', ms, st.total)
  end
  st.tail = table.concat(tail)
  st.count = kept + #tail
end

-- insert charges units at several moments, which are in order. Some may be before charges that the log has already:
-- the entries of these come after the new ones again.
function slide.insert(st, rec, limit, moments, units)
  if st.tail then st.area, st.tail = slide.straighten(st), false end
  slide.usage(st, rec)
  local late, taken = {}, {}
  while st.count > st.gone and st.newest > moments[1] do
    local n, ms, total = st.count - 1, 0, st.live
    if n > st.gone then ms, total = entry(st, n - 1) end
    table.insert(late, 1, st.newest)
    table.insert(taken, 1, (st.total - total) % WRAP)
    st.count, st.newest, st.total = n, ms, total
  end
  local all, sums, j = {}, {}, 1
  for i = 1, #moments + 1 do
    while late[j] and (i > #moments or late[j] <= moments[i]) do
      all[#all + 1], sums[#sums + 1], j = late[j], taken[j], j + 1
    end
    all[#all + 1], sums[#sums + 1] = moments[i], units[i]
  end
  slide.append(st, limit, all, sums)
  local added = #st.tail / ENTRY
  local slot = st.slots > 0 and (st.first + st.count - added) % st.slots or 0
  st.patch, st.patch_at = st.tail, slot * ENTRY
  rec.rewrite = rec.rewrite or st.count > st.slots or slot + added > st.slots or st.area ~= false
end

function slide.matters_until(st) return st.newest + st.window end

function slide.empty_at(st) return st.newest + st.window + 1 end

function slide.empty_after(st, ms, limit) return slide.dated(ms, limit, st.window) + st.window + 1 end

-- first_of returns the first of the entries low to high at which a number of 6 bytes, less base, is at least `least`,
-- and high if none before it is. In s, the number of entry 0 is at index `at`.
local function first_of(s, at, low, high, base, least)
  while low < high do
    local mid = (low + high - (low + high) % 2) / 2
    if (unpack('>I6', s, at + mid * ENTRY) - base) % WRAP < least then low = mid + 1 else high = mid end
  end
  return low
end

-- straight is described with lib.ask. It reads some of the oldest entries of a patched record, and writes the fields
-- and the newest entry.
function slide.straight(q, s, at, begin, requests, head)
  local window, limit, needs, clock, more = q.window, q.limit, q.needs, ask.clock, ask.more
  local now, bound, most, key = clock, false, limit, false
  if more then now, bound, most, key = more.now, more.bound, limit - more.held, more.key end
  local front, from, gone, last, calls, n, base, total, newest = s, begin, 0
  local ahead, slots, first, oldest_ms -- front has the first `ahead` entries at index from
  if key then
    last, calls, n, first, base, total, newest = unpack('>I6I4I6I3I6I6I6', s, at)
    slots = n % SHIFT
    n = (n - slots) / SHIFT
    if n < 1 or n > slots or first >= slots or slots > SLOTS then return end
    from, ahead = begin + first * ENTRY, slots - first
    if ahead > FRONT then ahead = FRONT end
    if ahead > n then ahead = n end
    if from + ahead * ENTRY > #s + 1 then
      front, from = call('GETRANGE', key, format('%d', from - 1), format('%d', from + ahead * ENTRY - 2)), 1
      if #front < ahead * ENTRY then return end
    end
  elseif s ~= '' then
    -- base is WRAP or more unless the ring begins at slot 0
    last, calls, n, base, total, newest = unpack('>I6I4I6I9I6I6', s, at)
    ahead = n % SHIFT
    if n ~= ahead * SHIFT + ahead or n == 0 or base >= WRAP or begin + ahead * ENTRY > #s + 1 then return end
    n = ahead
  else
    last, calls, n, base, total, newest = 0, 0, 0, 0, 0, 0
  end
  if n > 0 then
    if last > now then
      if q.only_by_clock or last > clock + YEAR then return end
      now = last
    end
    if newest > last + GRID then return end
    local low = now - window -- the first ms that counts
    oldest_ms = unpack('>I6', front, from)
    if newest < low then
      gone, base = n, total
    elseif oldest_ms < low then
      gone = first_of(front, from, 1, min(ahead, n - 1), 0, low)
      if gone == ahead then return end
      base = unpack('>I6', front, from + (gone - 1) * ENTRY + TOTAL_AT)
    end
  end
  local used = (total - base) % WRAP
  local granted = (bound or most) - used
  if granted >= requests * needs then
    granted = requests
  elseif bound or used > UNITS then
    return
  else
    granted = granted > 0 and (granted - granted % needs) / needs or 0
  end
  local units = granted * q.cost
  if granted < requests then
    -- units that have to leave the window before there is room for one more request
    local over = used + units + needs - most
    if over > used then return end
    if over > 0 then
      local high = gone + over - 1 -- each entry has at least one unit
      if high >= ahead then high = ahead == n and n - 1 or ahead end
      local leaves = high > gone and first_of(front, from + TOTAL_AT, gone, high, base, over) or gone
      if leaves == ahead then return end
      local room = (leaves > 0 and unpack('>I6', front, from + leaves * ENTRY) or oldest_ms) + window + 1
      if room <= clock or room > clock + DELAY then return end
      ask.room = room
    else -- the requests have no cost
      granted = requests
    end
  end
  if units == 0 then return granted * SHIFT + rate_at(clock, last, calls), used, newest + window + 1, false end
  local ms, kept, stop, fields = now, n - gone, begin + n * ENTRY -- ms: of the entry that gets the units
  if limit > 65536 then ms = ms + -ms % ceil(window / 65536) end
  ask.moves = newest ~= ms
  if kept > 0 and newest >= ms then ms, ask.moves, kept = newest, false, kept - 1 end -- kept: entries that stay
  n, total, ask.ends = kept + 1, (total + units) % WRAP, ms + window
  local rate, rated = charged(now, last, calls, clock)
  if key then
    if n > slots or slots > 256 and n * 4 < slots then return end
    first = (first + gone) % slots
    fields = pack('>I6I4I6I3I6I6I6', now, rate, n * SHIFT + slots, first, base, total, ms)
    -- it returns the record's length
    if call('SETRANGE', key, format('%d', at - 1), fields) < begin - 1 + slots * ENTRY then
      record.damaged(key, 'it ends within its areas')
    end
    call('SETRANGE', key, format('%d', begin - 1 + (first + kept) % slots * ENTRY), pack('>I6I6', ms, total))
  else
    local live = sub(s, begin + gone * ENTRY, begin + (gone + kept) * ENTRY - 1)
    if head and begin == at + FIELDS and stop > #s then
      fields = pack('>c0I6I4I6I9I6I6c0I6I6', head, now, rate, n * SHIFT + n, base, total, ms, live, ms, total)
    elseif head then
      fields = pack('>c0I6I4I6I9I6I6c0c0I6I6', head, now, rate, n * SHIFT + n, base, total, ms,
        sub(s, at + FIELDS, begin - 1), live, ms, total) .. sub(s, stop)
    else
      fields = pack('>I6I4I6I9I6I6', now, rate, n * SHIFT + n, base, total, ms)
      ask.area = live .. pack('>I6I6', ms, total)
    end
  end
  return granted * SHIFT + rated, used, ms + window + 1, fields
end
