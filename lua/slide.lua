-- slide.lua: RL.SLIDE, the exact sliding-window log.
--
-- A state's area is a ring of entries, one per ms that admitted something: the ms
-- and the running total after it. An entry counts while now <= its ms + window, so
-- the use is the difference of two running totals and a decision needs one search
-- for the oldest entry that counts, whatever the cost and however long the log.
--
-- Every kind has the same five functions:
--   fresh(window, buckets)                a state without admissions
--   used(rec, st, strict)                 what counts at rec.now; to be asked first
--   charge(rec, st, limit, units)         admit units at rec.now
--   retry(rec, st, over, room, strict)    the ms at which what counts is at most room,
--                                         being over by that much now
--   last(st)                              ms of the newest admission; units that its
--                                         sub-window held before this call

do

local READ = 32 -- entries read at a time from a record that is not in memory

local function fresh(window)
  return state(SLIDE, 1, window, '')
end

-- entry returns the ms and running total of the i-th entry, from 0. The last one
-- stands in the header, and may not be in the ring yet.
local function entry(rec, st, i)
  if i == st[COUNT] - 1 then return st[NEWEST], st[TOTAL] end
  local slot = (st[FIRST] + i) % st[CAP]
  if st[AREA] then return unpack('>I6I6', st[AREA], slot * ENTRY + 1) end
  local from = st[FROM]
  if not from or slot < from or slot >= from + READ then
    from = slot
    local at = st[OFFSET] + from * ENTRY
    st[FROM], st[BLOCK] = from, call('GETRANGE', rec.key, at, min(at + READ * ENTRY, st[OFFSET] + st[CAP] * ENTRY) - 1)
  end
  return unpack('>I6I6', st[BLOCK], (slot - from) * ENTRY + 1)
end

-- search returns the first entry, from low on, that satisfies late(ms, total): it
-- doubles its step from the front, where the answer mostly is, then halves.
local function search(rec, st, low, late)
  local high, step = st[COUNT], 1
  while low < high do
    local i = min(low + step, high) - 1
    if late(entry(rec, st, i)) then
      high = i
      break
    end
    low, step = i + 1, step * 2
  end
  while low < high do
    local mid = floor((low + high) / 2)
    if late(entry(rec, st, mid)) then high = mid else low = mid + 1 end
  end
  return low
end

-- used returns what counts now, and remembers where the live entries begin.
local function used(rec, st)
  local gone, base = 0, st[BASE]
  if st[COUNT] > 0 then
    local oldest = rec.now - st[WINDOW]
    if st[NEWEST] < oldest then
      gone, base = st[COUNT], st[TOTAL]
    else
      gone = search(rec, st, 0, function(ms) return ms >= oldest end)
      if gone > 0 then local _, total = entry(rec, st, gone - 1); base = total end
    end
  end
  st[GONE], st[LIVE] = gone, base
  return (st[TOTAL] - base) % WRAP
end

-- retry returns the ms at which enough of what counts has left the window, for a
-- use that is over by that much.
local function retry(rec, st, over)
  local base = st[LIVE]
  local i = search(rec, st, st[GONE], function(_, total) return (total - base) % WRAP >= over end)
  return (entry(rec, st, i)) + st[WINDOW] + 1
end

-- charge admits units now. Limits above 65,536 round the ms up to a grid, so that
-- a log has at most some 65,537 entries.
local function charge(rec, st, limit, units)
  local now, window = rec.now, st[WINDOW]
  if limit > 65536 then now = now + -now % math.ceil(window / 65536) end
  st[FIRST] = st[CAP] > 0 and (st[FIRST] + st[GONE]) % st[CAP] or 0
  st[COUNT], st[BASE] = st[COUNT] - st[GONE], st[LIVE]
  st[TOTAL] = (st[TOTAL] + units) % WRAP
  st[GONE] = 0
  local slot
  if st[COUNT] > 0 and st[NEWEST] >= now then
    now, slot = st[NEWEST], (st[FIRST] + st[COUNT] - 1) % st[CAP]
  else
    if st[COUNT] < st[CAP] then slot = (st[FIRST] + st[COUNT]) % st[CAP] end
    st[COUNT] = st[COUNT] + 1
  end
  st[NEWEST] = now
  local bytes = pack('>I6I6', now, st[TOTAL])
  if not slot then
    st[GROW] = bytes
  elseif st[AREA] then
    st[AREA] = sub(st[AREA], 1, slot * ENTRY) .. bytes .. sub(st[AREA], slot * ENTRY + ENTRY + 1)
  else
    st[PATCH], st[PATCHED] = bytes, st[OFFSET] + slot * ENTRY
  end
end

algorithms[SLIDE] = {
  fresh = fresh, used = used, retry = retry, charge = charge,
  last = function(st) return st[NEWEST], 0 end,
}

end
