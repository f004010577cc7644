-- holds.lua: held units of a key, which count now but have not been charged: those of RL.RESERVE, RL.ACQUIRE and
-- multi-key requests. Units that are not settled before their deadline lapse: they are charged as of that ms (if they
-- are additive), or forgotten.
--
-- The held units of a window are a state of their own, whose kind is HOLDS plus the window's kind. Its area is a list
-- of cells in the order of their deadlines. A hold adds to the cell of its deadline. Deadlines are rounded up, which
-- bounds the number of cells, so the cost of a decision does not grow with the number of holds. The area may be padded.
local lib = ...

local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local max, min, floor, zeros = math.max, math.min, math.floor, string.rep
local schema, record, rate, slide = lib.schema, lib.record, lib.rate, lib.slide
local HOLDS, SLIDE, CELL = schema.HOLDS, slide.kind, schema.CELL_BYTES
local SPARE = 16 -- spare cells in the area of a patched record
local MOST_LEASES = 65536 -- of RL.ACQUIRE on one key
local FINE, COARSE = 6, 3 -- deadlines are rounded up by at most 2^-6 of the TTL; by 2^-3 in a crowded window
local holds = {
  MOST = 16384, -- the most holds of a window, except of RL.ACQUIRE
  CROWD = 160,  -- a window with as many cells is crowded: more than holds with one TTL make
}
lib.holds = holds

-- The slots of RL.ACQUIRE as an algorithm: nothing is charged, they are only held.
local no_fields = { bytes = 0, area = 0, read = function() end }
local slots = lib.register({
  kind = 8, holdable = true,
  valid = function(_, window) return window == 0 end,
  fields = function() return no_fields end,
  usage = function() return 0 end,
  charge = function() error({ err = 'ERR a lease is held and not charged' }) end,
  matters_until = function() return 0 end,
})
local CONCURRENCY = slots.kind
holds.CONCURRENCY = CONCURRENCY

-- The fields of a window's held units. last: the ms of the newest hold. rate: of holds, see rate.lua. cells, slots: how
-- many cells there are, and the size of the area in cells. holds, charge, release: the sums over all cells. lapsed: how
-- many holds have lapsed. last_charge, last_release: the latest deadlines of units to charge and to release, 0 without
-- any. next: the earliest deadline, 0 without cells. The fast path reads it instead of the cells.
local FIELDS = '>I6I4I3I3I3I6I6I4I6I6I6'
local form = {
  bytes = struct.size(FIELDS), slot = CELL,
  read = function(st, s, at)
    st.last, st.rate, st.cells, st.slots, st.holds, st.charge, st.release, st.lapsed, st.last_charge,
      st.last_release, st.next = unpack(FIELDS, s, at)
  end,
  write = function(st)
    if st.cells == 0 then return pack('>I10I3I3', 0, 0, st.slots) .. string.rep('\0', 37) end -- this also resets lapsed
    return pack(FIELDS, st.last, st.rate, st.cells, st.slots, st.holds, st.charge, st.release, st.lapsed,
      st.last_charge, st.last_release, st.next)
  end,
}
holds.form = form

-- Each holdable kind has a kind of states for its held units. They only have matters_until.
local holdable = {}
for kind, algorithm in pairs(lib.algorithms) do
  if algorithm.holdable then holdable[kind] = algorithm end
end
for kind, algorithm in pairs(holdable) do
  lib.register({
    kind = HOLDS + kind, valid = algorithm.valid, fields = function() return form end,
    matters_until = function(st) return holds.matters_until(st) end,
  })
end

-- deadline returns the ms at which units held at now for ttl ms lapse: now + ttl, rounded up by at most ttl/64, or
-- ttl/8 in a crowded window.
function holds.deadline(now, ttl, crowded)
  local bits = crowded and COARSE or FINE
  local _, digits = math.frexp(max(ttl, 2 ^ bits)) -- binary digits of ttl
  return now + ttl + -(now + ttl) % 2 ^ (digits - bits - 1)
end

-- crowded reports whether any window of a spec is crowded.
function holds.crowded(q)
  for i = 1, q.count do
    local st = record.find(HOLDS + q.kind, q.parameters[i], q.windows[i])
    if st and st.cells >= holds.CROWD then return true end
  end
  return false
end

local function cells(st) return sub(record.area(st), 1, st.cells * CELL) end

-- keep sets the cells of a state.
local function keep(st, rec, s)
  local count = #s / CELL
  if rec.inline then
    st.slots = count
  elseif count > st.slots then
    st.slots, rec.rewrite = count + SPARE, true
  end
  -- drops the state; in a patched record it stays until the next rewrite
  if count == 0 and rec.inline then rec.rewrite = true end
  st.area, st.cells = s .. zeros('\0', (st.slots - count) * CELL), count
  st.next = count > 0 and unpack('>I6', s) or 0
  st.patch, st.patch_at = st.area, 0
end

-- latest returns the latest deadlines of units to charge and of units to release, 0 if there are none.
local function latest(st)
  local s, last_charge, last_release, i = cells(st), 0, 0, st.cells
  while i > 0 and (last_charge == 0 and st.charge > 0 or last_release == 0 and st.release > 0) do
    i = i - 1
    local deadline, charge, release = unpack('>I6I6I6', s, i * CELL + 1)
    if charge > 0 then last_charge = max(last_charge, deadline) end
    if release > 0 then last_release = max(last_release, deadline) end
  end
  return last_charge, last_release
end

-- seek searches `count` cells that begin at an index of s. It returns the index of the first cell whose deadline is not
-- before the given one, and the units to charge, the units to release and the holds of the cell with that deadline, 0
-- if there is none.
function holds.seek(s, begin, count, deadline)
  local low, high = 0, count
  while low < high do
    local mid = (low + high - (low + high) % 2) / 2
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

-- change adds units and holds to the cell of a deadline; negative numbers remove them.
local function change(st, rec, deadline, charge, release, n)
  local s, cell = cells(st), ''
  local at, charged, released, held = seek(s, 1, st.cells, deadline)
  local rest = at + (held > 0 and CELL or 0)
  charged, released, held = charged + charge, released + release, held + n
  st.charge, st.release, st.holds = st.charge + charge, st.release + release, st.holds + n
  if min(charged, released, held, st.charge, st.release, st.holds) < 0 or held == 0 and charged + released > 0 then
    record.damaged(rec.key, 'holds that do not add up')
  end
  if held > 0 then cell = pack(schema.CELL, deadline, charged, released, held) end
  keep(st, rec, sub(s, 1, at - 1) .. cell .. sub(s, rest))
  if n > 0 then
    local latest_of = charge > 0 and 'last_charge' or 'last_release'
    st[latest_of] = max(st[latest_of], deadline)
  elseif charged == 0 and st.last_charge == deadline or released == 0 and st.last_release == deadline then
    st.last_charge, st.last_release = latest(st)
  end
end

-- admits raises an error if a window of a spec has no room for another hold. states are those that weigh has found.
function holds.admits(q, states)
  local most, name = holds.MOST, 'reservations'
  if q.kind == CONCURRENCY then most, name = MOST_LEASES, 'leases' end
  for i = 1, q.count do
    local held = states[i].held
    if held and held.holds >= most then error({ err = 'ERR too many ' .. name .. ' for this key' }) end
  end
end

-- add holds units of each window of a spec until a deadline. states, if given, are those of weigh.
function holds.add(rec, q, deadline, units, release, states)
  for i = 1, q.count do
    local st = record.find(HOLDS + q.kind, q.parameters[i], q.windows[i])
    if not st then
      st = record.state(HOLDS + q.kind, q.parameters[i], q.windows[i])
      st.asked = true
      record.add(st)
    end
    if st.cells == 0 then st.last, st.rate, st.lapsed = 0, 0, 0 end -- these count since the window last held nothing
    change(st, rec, deadline, release and 0 or units, release and units or 0, 1)
    st.rate = rate.charged(rec.now, st.last, st.rate, rec.now)
    st.last, st.limit, rec.held = rec.now, min(q.limits[i], 1e12), true
    if states then states[i].held = st end
  end
end

-- still_held reports whether the cell of a hold still has enough units. It cannot tell whose they are.
function holds.still_held(q, deadline, units, release)
  for i = 1, q.count do
    local st = record.find(HOLDS + q.kind, q.parameters[i], q.windows[i])
    if not st then return false end
    local _, charged, released = seek(cells(st), 1, st.cells, deadline)
    if (release and released or charged) < units then return false end
  end
  return true
end

-- remove removes one hold that add has added.
function holds.remove(rec, q, deadline, units, release)
  for i = 1, q.count do
    local st = record.find(HOLDS + q.kind, q.parameters[i], q.windows[i])
    change(st, rec, deadline, release and 0 or -units, release and -units or 0, -1)
  end
end

-- lapse removes the cells whose deadline has passed, and charges their units that are to be charged. last_charge and
-- last_release keep the latest deadlines of the cells that remain.
function holds.lapse(rec)
  for i = 1, rec.count do
    local st = rec[i]
    if st.kind > HOLDS and st.cells > 0 and st.next <= rec.now then
      local s, past, moments, charges, lapsed = cells(st), 0, {}, {}, 0
      for at = 1, #s, CELL do
        local deadline, charge, release, n = unpack('>I6I6I6I3', s, at)
        if at == 1 and deadline ~= st.next then record.damaged(rec.key, 'holds that do not add up') end
        if deadline > rec.now then break end
        if charge > 0 then moments[#moments + 1], charges[#charges + 1] = deadline, charge end
        st.charge, st.release, st.holds = st.charge - charge, st.release - release, st.holds - n
        lapsed, past = lapsed + n, at + CELL - 1
      end
      if past > 0 then
        if st.charge == 0 then st.last_charge = 0 end
        if st.release == 0 then st.last_release = 0 end
        if min(st.charge, st.release, st.holds) < 0 then record.damaged(rec.key, 'holds that do not add up') end
        if #moments > 0 then holds.charge(rec, st, moments, charges) end
        st.lapsed, rec.lapsed = min(st.lapsed + lapsed, 2 ^ 32 - 1), max(rec.lapsed, lapsed)
        keep(st, rec, sub(s, past + 1))
      end
    end
  end
end

-- charge charges lapsed units to the state of their window, each at its deadline.
function holds.charge(rec, held, moments, units)
  local kind, parameter, window, now = held.kind - HOLDS, held.parameter, held.window, rec.now
  local st = record.find(kind, parameter, window)
  if not st then
    st = record.state(kind, parameter, window)
    record.add(st)
  end
  rec.now = moments[#moments]
  st.algorithm.usage(st, rec)
  st.algorithm.append(st, held.limit, moments, units)
  for _, ms in ipairs(moments) do st.rate, st.last = rate.charged(ms, st.last, st.rate, ms), max(st.last, ms) end
  st.limit, rec.rewrite, rec.now = held.limit, true, now
end

-- counts_until returns the last ms at which units count that are charged at a deadline to a log whose newest entry is
-- `newest`.
local function counts_until(st, deadline, newest)
  return max(slide.dated(deadline, st.limit, st.window), newest) + st.window
end

function holds.matters_until(st)
  local ending = st.last_release - 1
  if st.last_charge == 0 then return ending end
  return max(ending, lib.algorithms[st.kind - HOLDS].empty_after(st, st.last_charge, st.limit, 1, true) - 1)
end

-- ends_after returns the first ms at which nothing counts any more of a window of RL.SLIDE whose log is empty at a ms.
-- last_charge and last_release are the latest deadlines of its held units, and limit is that of their state.
function holds.ends_after(empty, window, limit, last_charge, last_release)
  if last_charge > 0 then empty = max(empty, slide.dated(last_charge, limit, window) + window + 1) end
  return max(empty, last_release)
end

-- newest_of returns the units that will have been charged to a window in the sub-window of its latest deadline: only
-- these say when it is empty, and only of RL.COUNTER their number matters.
local function newest_of(st, held)
  local s, units, n, window = cells(held), 0, st.parameter, st.window
  local k = floor(held.last_charge * n / window)
  if floor(st.last * n / window) == k then units = st.newest end
  for at = #s - CELL + 1, 1, -CELL do
    local deadline, charge = unpack('>I6I6', s, at)
    if floor(deadline * n / window) < k then break end
    units = units + charge
  end
  return units
end

-- empty_at returns the first ms at which nothing of a window counts any more: neither what was charged nor what is
-- held. What a multi-key request holds, it charges at once, so its reply is as if that were charged now.
function holds.empty_at(st, rec, strict)
  local held, algorithm = st.held, st.algorithm
  if st.kind == CONCURRENCY then return held and held.last_release or 0 end
  local empty = algorithm.empty_at(st, rec, strict)
  if not held or held.cells == 0 then return empty end
  if st.kind ~= SLIDE and rec.at_once then
    local units = held.charge + held.release + (st.current or 0)
    return max(empty, algorithm.empty_after(st, rec.now, 0, units, strict))
  end
  if held.last_charge > 0 then
    local units = algorithm.weighted and newest_of(st, held) or 0
    empty = max(empty, algorithm.empty_after(st, held.last_charge, held.limit, units, strict))
  end
  return max(empty, held.last_release)
end

-- beside reads the held units of a window from the fields at index `at` of s. It returns the units, and the latest
-- deadlines of units to charge and to release. It returns nothing if the slow path has to decide: if some have lapsed,
-- or the clock is before the newest hold. Deadlines are later than any charge, so the clock of the node is enough to
-- find what has lapsed.
function holds.beside(s, at, clock)
  local last, _, charge, release, _, last_charge, last_release, next = unpack('>I6I13I6I6I4I6I6I6', s, at)
  if last > clock or next > 0 and next <= clock then return end
  return charge + release, last_charge, last_release
end

-- weigh sets, for each window of a spec, its state and the units that count: charged, held, and advanced. If strict,
-- an RL.COUNTER counts its oldest sub-window in full.
function holds.weigh(rec, q, states, uses, strict)
  for i = 1, q.count do
    local st = record.find(q.kind, q.parameters[i], q.windows[i]) or record.state(q.kind, q.parameters[i], q.windows[i])
    states[i], uses[i], st.asked = st, q.algorithm.usage(st, rec, strict, q), true
    st.held = rec.held and record.find(HOLDS + q.kind, q.parameters[i], q.windows[i])
    if st.held then uses[i], st.held.asked = uses[i] + st.held.charge + st.held.release, true end
  end
  if rec.advances then lib.advance.weigh(rec, q, states, uses, strict) end
end

local moments, rest = {}, {} -- see ends

-- ends finds the moments at which held units end, in order, until at most `enough` are left, and the units still held
-- from each of them on. Index 0 is now. It returns the index of the last moment.
local function ends(st, rec, newest, enough)
  local s, stop = cells(st), st.cells * CELL
  local count, left, at, upto = 0, st.charge + st.release, 1, 1 -- at: the next cell to charge, upto: to release
  local from, charge, till, release, over, _ = 0, 0, 0, 0, math.huge
  moments[0], rest[0] = rec.now, left
  while left > enough do
    while charge == 0 do
      if at > stop or st.charge == 0 then from, charge = over, 1 else
        from, charge = unpack('>I6I6', s, at)
        if charge > 0 then from = counts_until(st, from, newest) + 1 end
        at = at + CELL
      end
    end
    while release == 0 do
      if upto > stop or st.release == 0 then till, release = over, 1 else
        till, _, release = unpack('>I6I6I6', s, upto)
        upto = upto + CELL
      end
    end
    local moment = min(from, till)
    if moment == over then break end
    if from == moment then left, charge = left - charge, 0 end
    if till == moment then left, release = left - release, 0 end
    count = count + 1
    moments[count], rest[count] = moment, left
  end
  moments[count + 1] = over
  return count
end

-- above returns the index of the first number of a sorted list that is above x.
local function above(list, x)
  local low, high = 1, #list + 1
  while low < high do
    local mid = floor((low + high) / 2)
    if list[mid] > x then high = mid else low = mid + 1 end
  end
  return low
end

-- summed returns the deadlines of units that are charged when they lapse, and of those that are released; and for each
-- deadline, at its index plus 1, the units up to it.
local function summed(st)
  local s, charges, releases, charged, released = cells(st), {}, {}, { 0 }, { 0 }
  for at = 1, #s, CELL do
    local deadline, charge, release = unpack('>I6I6I6', s, at)
    if charge > 0 then
      local i = #charges + 1
      charges[i], charged[i + 1] = deadline, charged[i] + charge
    end
    if release > 0 then
      local i = #releases + 1
      releases[i], released[i + 1] = deadline, released[i] + release
    end
  end
  return charges, charged, releases, released
end

-- windowed_room is room_at for kinds with sub-windows. Units that are charged when they lapse count in full until the
-- sub-window of their deadline is the oldest one, and then as it does, so what counts at a ms never grows with the ms.
local function windowed_room(st, rec, most, strict)
  local algorithm, n, window, now, copy = st.algorithm, st.parameter, st.window, rec.now, {}
  local charges, charged, releases, released = summed(st.held)
  local leaves, places = {}, {}
  for i, deadline in ipairs(charges) do
    leaves[i] = algorithm.empty_after(st, deadline, st.held.limit, 1, true)
    places[i] = floor(deadline * n / window)
  end
  for name, value in pairs(st) do copy[name] = value end -- usage changes some of its fields
  copy.area = st.area or record.area(st)
  local function used(ms)
    rec.now = ms
    local units, gone = algorithm.usage(copy, rec, strict), charged[above(leaves, ms)]
    local old = gone
    if algorithm.weighted and not strict then
      old = max(charged[above(places, copy.k - n)], gone)
      units = copy.rest + floor((copy.oldest + old - gone) * (window - copy.e) / window)
    end
    return units + charged[#charged] - old + released[#released] - released[above(releases, ms)]
  end
  local low, high = now, holds.empty_at(st, rec, strict)
  while high - low > 1 do
    local mid = floor((low + high) / 2)
    if used(mid) <= most then high = mid else low = mid end
  end
  rec.now = now
  return high
end

-- room_at returns the first ms at which at most `most` units of the window count; now, `over` more do. Of a log,
-- charged and held units expire independently: room_at finds the first moment such that there is room before the next.
function holds.room_at(st, rec, over, most, strict)
  local algorithm = st.algorithm
  if not st.held or st.held.cells == 0 then return algorithm.room_at(st, rec, over, most, strict) end
  if st.held.charge > 0 and st.kind ~= SLIDE then return windowed_room(st, rec, most, strict) end
  local used = most + over - st.held.charge - st.held.release
  local count = ends(st.held, rec, st.newest, most - used)
  local function room(i) -- when the charged units leave room beside the units held from the i-th moment on
    local left = most - rest[i]
    if used <= left then return 0 end
    return left < 0 and math.huge or algorithm.room_at(st, rec, used - left, left, strict)
  end
  local low, high = 0, count
  while low < high do
    local mid = floor((low + high) / 2)
    if room(mid) < moments[mid + 1] then high = mid else low = mid + 1 end
  end
  return max(moments[low], room(low))
end
