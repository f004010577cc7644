-- holds.lua: units of a key that count now and have not been charged: RL.RESERVE, RL.ACQUIRE, and multi-key requests. Unless
-- settled before, they lapse at a deadline: they are charged as of that ms (only RL.SLIDE can), or forgotten.
--
-- What is held of a window is a state of its own, of a kind HOLDS above the window's. Its area is a list of cells in
-- order of their deadlines. A hold adds to the cell of its deadline, and deadlines are rounded up, so that what a decision
-- costs does not depend on how many holds there are. The area may be padded.
local lib = ...

local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local max, min, floor, zeros = math.max, math.min, math.floor, string.rep
local layout, record, rate, slide = lib.layout, lib.record, lib.rate, lib.slide
local HOLDS, SLIDE, CONCURRENCY, CELL = layout.HOLDS, layout.SLIDE, layout.CONCURRENCY, layout.CELL_BYTES
local SPARE = 16 -- cells of room that the area of a patched record is given
local MOST_LEASES = 65536 -- holds of RL.ACQUIRE
local holds = { MOST = 16384 } -- holds of a window
lib.holds = holds

-- CONCURRENCY as an algorithm: nothing is charged.
holds.nothing = {
  fresh = function(st) st.last, st.rate = 0, 0 end,
  usage = function(st) st.said_last, st.said_newest = 0, 0 return 0 end,
  charge = function() error({ err = 'ERR a lease is held and not charged' }) end,
  matters_until = function() return 0 end,
}

-- deadline returns the ms at which units held at now for ttl ms lapse: now + ttl, rounded up by at most ttl/64.
function holds.deadline(now, ttl)
  local _, digits = math.frexp(max(ttl, 64)) -- in binary
  return now + ttl + -(now + ttl) % 2 ^ (digits - 7)
end

local function cells(st) return sub(record.area(st), 1, st.cells * CELL) end

-- keep gives a state these cells.
local function keep(st, rec, s)
  local count = #s / CELL
  if rec.inline then
    st.slots = count
  elseif count > st.slots then
    st.slots, rec.rewrite = count + SPARE, true
  end
  if count == 0 and rec.inline then rec.rewrite = true end -- without it; a patched record loses it when it is rewritten
  st.area, st.cells, st.touched = s .. zeros('\0', (st.slots - count) * CELL), count, true
  st.patch, st.patch_at = st.area, 0
end

-- latest returns the latest deadlines of what is to be charged and released, 0 if there is none.
local function latest(st)
  local s, charged, released, i = cells(st), 0, 0, st.cells
  while i > 0 and (charged == 0 and st.charge > 0 or released == 0 and st.release > 0) do
    i = i - 1
    local deadline, charge, release = unpack('>I6I6I6', s, i * CELL + 1)
    if charge > 0 then charged = max(charged, deadline) end
    if release > 0 then released = max(released, deadline) end
  end
  return charged, released
end

-- seek returns the index in s of the first of so many cells, which begin at an index, that does not end before a deadline;
-- then what the cell of the deadline has, if there is one: to charge, to release, holds.
function holds.seek(s, begin, count, deadline)
  local low, high = 0, count
  while low < high do
    local mid = floor((low + high) / 2)
    if unpack('>I6', s, begin + mid * CELL) < deadline then low = mid + 1 else high = mid end
  end
  local index = begin + low * CELL
  if low < count then
    local at, charge, release, n = unpack('>I6I6I6I3', s, index)
    if at == deadline then return index, charge, release, n end
  end
  return index, 0, 0, 0
end
local seek = holds.seek

-- change adds units and holds to the cell of a deadline, or takes them off.
local function change(st, rec, deadline, charge, release, n)
  local s = cells(st)
  local at, charged, released, held = seek(s, 1, st.cells, deadline)
  local rest = sub(s, at + (held > 0 and CELL or 0))
  charged, released, held = charged + charge, released + release, held + n
  st.charge, st.release, st.holds = st.charge + charge, st.release + release, st.holds + n
  if min(charged, released, held, st.charge, st.release, st.holds) < 0 or held == 0 and charged + released > 0 then
    record.damaged(rec.key, 'holds that do not add up')
  end
  keep(st, rec, sub(s, 1, at - 1) .. (held > 0 and pack('>I6I6I6I3', deadline, charged, released, held) or '') .. rest)
  if n > 0 then
    if charge > 0 then st.charged = max(st.charged, deadline) else st.released = max(st.released, deadline) end
  elseif charged == 0 and st.charged == deadline or released == 0 and st.released == deadline then
    st.charged, st.released = latest(st)
  end
end

-- add holds units of each window of a spec, which were weighed as states, until a deadline.
function holds.add(rec, q, deadline, units, release, states)
  for i = 1, q.count do
    local st = record.find(HOLDS + q.kind, q.buckets, q.windows[i])
    if not st then
      st = record.state(HOLDS + q.kind, q.buckets, q.windows[i])
      st.last, st.rate, st.cells, st.slots, st.holds, st.charge, st.release, st.lapsed = 0, 0, 0, 0, 0, 0, 0, 0
      st.charged, st.released, st.area = 0, 0, ''
      record.add(st)
      rec.held = true
    end
    local most, name = holds.MOST, 'reservations'
    if q.kind == CONCURRENCY then most, name = MOST_LEASES, 'leases' end
    if st.holds >= most then error({ err = 'ERR too many ' .. name .. ' for this key' }) end
    change(st, rec, deadline, release and 0 or units, release and units or 0, 1)
    st.rate = rate.charged(rec.now, st.last, st.rate, rec.now)
    st.last, st.limit = rec.now, min(q.limits[i], 1e12)
    if states then states[i].held = st end
  end
end

-- out reports whether what add has added is there. After an eviction it is not.
function holds.out(q, deadline, units, release)
  for i = 1, q.count do
    local st = record.find(HOLDS + q.kind, q.buckets, q.windows[i])
    if not st then return false end
    local _, charged, released = seek(cells(st), 1, st.cells, deadline)
    if (release and released or charged) < units then return false end
  end
  return true
end

-- remove takes it off.
function holds.remove(rec, q, deadline, units, release)
  for i = 1, q.count do
    local st = record.find(HOLDS + q.kind, q.buckets, q.windows[i])
    change(st, rec, deadline, release and 0 or -units, release and -units or 0, -1)
  end
end

-- lapse takes off the cells whose deadline has come, and charges what is to be charged. The latest deadlines stay, if they
-- have not come.
function holds.lapse(rec)
  for i = 1, rec.count do
    local st = rec[i]
    if st.kind > HOLDS then
      local s, past, moments, charges, lapsed = cells(st), 0, {}, {}, 0
      for at = 1, #s, CELL do
        local deadline, charge, release, n = unpack('>I6I6I6I3', s, at)
        if deadline > rec.now then break end
        if charge > 0 then moments[#moments + 1], charges[#charges + 1] = deadline, charge end
        st.charge, st.release, st.holds = st.charge - charge, st.release - release, st.holds - n
        lapsed, past = lapsed + n, at + CELL - 1
      end
      if past > 0 then
        if st.charge == 0 then st.charged = 0 end
        if st.release == 0 then st.released = 0 end
        if min(st.charge, st.release, st.holds) < 0 then record.damaged(rec.key, 'holds that do not add up') end
        if #moments > 0 then holds.charge(rec, st, moments, charges) end
        st.lapsed, rec.lapsed = min(st.lapsed + lapsed, 2 ^ 32 - 1), max(rec.lapsed, lapsed)
        keep(st, rec, sub(s, past + 1))
      end
    end
  end
end

-- charge charges the log of a window with what has lapsed.
function holds.charge(rec, held, moments, units)
  local st, now = record.find(SLIDE, 1, held.window), rec.now
  if not st then
    st = record.state(SLIDE, 1, held.window)
    slide.fresh(st)
    record.add(st)
  end
  rec.now = moments[#moments]
  slide.usage(st, rec)
  slide.append(st, held.limit, moments, units)
  for _, ms in ipairs(moments) do st.rate, st.last = rate.charged(ms, st.last, st.rate, ms), max(st.last, ms) end
  st.limit, st.touched, rec.rewrite, rec.now = held.limit, true, true, now
end

-- gone returns the last ms at which units count that are charged at a deadline, to a log with that newest entry.
local function gone(st, deadline, newest)
  return max(slide.dated(deadline, st.limit, st.window), newest) + st.window
end

function holds.matters_until(st)
  return max(st.released - 1, st.charged > 0 and gone(st, st.charged, 0) or 0)
end

-- said_last returns the ms of the newest admission that a reply tells of a state that weigh has weighed: one that ends
-- when all that is held does.
function holds.said_last(st)
  if not st.held or st.held.cells == 0 then return st.said_last end
  local charged, released = st.held.charged, st.held.released
  if st.kind == CONCURRENCY then return released end
  if st.kind ~= SLIDE then return max(st.said_last, released - 1) end
  return max(st.said_last, released - st.window - 1, charged > 0 and gone(st.held, charged, 0) - st.window or 0)
end

-- weigh finds the states of a spec, and what counts of each window, by index: what was charged and what is held.
function holds.weigh(rec, q, states, uses)
  for i = 1, q.count do
    local st = record.find(q.kind, q.buckets, q.windows[i])
    if not st then
      st = record.state(q.kind, q.buckets, q.windows[i])
      q.algorithm.fresh(st)
    end
    states[i], uses[i] = st, q.algorithm.usage(st, rec, q.strict, q)
    st.held = rec.held and record.find(HOLDS + q.kind, q.buckets, q.windows[i])
    if st.held then uses[i] = uses[i] + st.held.charge + st.held.release end
  end
end

-- ends returns the moments at which what is held ends in order, from index 0, that of now, on; and what is still held then.
local function ends(st, rec, newest)
  local s, list = cells(st), {}
  for at = 1, #s, CELL do
    local deadline, charge, release = unpack('>I6I6I6', s, at)
    if release > 0 then list[#list + 1] = { deadline, release } end
    if charge > 0 then list[#list + 1] = { gone(st, deadline, newest) + 1, charge } end
  end
  if st.charge > 0 and st.release > 0 then table.sort(list, function(a, b) return a[1] < b[1] end) end
  local moments, rest = { [0] = rec.now }, { [0] = st.charge + st.release }
  for i, e in ipairs(list) do moments[i], rest[i] = e[1], rest[i - 1] - e[2] end
  return moments, rest
end

-- room_at returns the ms at which at most `most` units of the window count, which has `over` too many now. Charged and held
-- units expire independently: it finds the first end of a hold after which there is room at once, and then checks whether
-- charged units make room before that.
function holds.room_at(st, rec, over, most, strict)
  local algorithm = lib.algorithms[st.kind]
  if not st.held or st.held.cells == 0 then return algorithm.room_at(st, rec, over, most, strict) end
  local moments, rest = ends(st.held, rec, st.newest)
  local used = most + over - rest[0]
  local function room(i) -- when what was charged leaves room beside what is held from the i-th moment on
    local left = most - rest[i]
    if used <= left then return 0 end
    return left < 0 and math.huge or algorithm.room_at(st, rec, used - left, left, strict)
  end
  local low, high = 0, #moments
  while low < high do
    local mid = floor((low + high) / 2)
    if room(mid) <= moments[mid] then high = mid else low = mid + 1 end
  end
  local ms = max(moments[low], room(low))
  return low > 0 and min(ms, room(low - 1)) or ms
end
