-- fixed.lua: RL.FIXED, one count per window. Windows start at multiples of their length since the epoch.
--
-- A calendar window is a day, a week, a month or a year of a time zone. Its parameter says which of these it is, of
-- which zone, and in its last 28 bits the minute since the epoch at which it begins; for other windows it is 1. So each
-- has a state of its own, which counts until it ends. rlproxy knows calendars, see engine/limit/calendar.go, and the
-- node the time: it refuses a request with windows that are not those of its time.
local lib = ...

local unpack, pack, min = struct.unpack, struct.pack, math.min
local rate_at, charged = lib.rate.at, lib.rate.charged
local YEAR, UNITS, SHIFT, ask = lib.schema.YEAR, lib.schema.UNITS, lib.schema.SHIFT, lib.ask
local FIELDS = '>I6I4I6' -- last, rate, the units in the window of last
local BEGINS, MINUTE = 2 ^ 28, 60000 -- the place in the parameter of what is not the begin, and its ms
local MOST = YEAR + 2 * 86400000 -- ms of a calendar window: of a leap year in which a zone steps back by a day

local fixed = lib.register({ kind = 3, additive = true, holdable = true, least = 0, most = 1 })
lib.fixed = fixed

function fixed.valid(parameter, window)
  return parameter == 1 and lib.is_window(parameter, window) or parameter > 1 and window >= MINUTE and window <= MOST
end

local form = {
  bytes = struct.size(FIELDS), area = 0,
  read = function(st, s, at) st.last, st.rate, st.used = unpack(FIELDS, s, at) end,
  write = function(st) return pack(FIELDS, st.last, st.rate, st.used) end,
}
function fixed.fields() return form end

-- begins returns the ms at which the calendar window with a parameter begins.
function fixed.begins(parameter) return parameter % BEGINS * MINUTE end

-- beginning returns the ms at which the window of a ms begins.
local function beginning(st, ms)
  if st.parameter > 1 then return fixed.begins(st.parameter) end
  return ms - ms % st.window
end

-- misdated raises an error, with the time, if the calendar windows of a spec are not those of a time.
function fixed.misdated(q, now)
  for i = 1, q.count do
    local begins = q.each[i].begins
    if begins and (now < begins or now >= begins + q.windows[i]) then
      error({ err = lib.messages.MISDATED .. string.format('%d', now) })
    end
  end
end

-- ends returns the ms at which the first calendar window of a spec ends, math.huge without any.
function fixed.ends(q)
  local ends = math.huge
  for i = 1, q.dated and q.count or 0 do
    local begins = q.each[i].begins
    ends = min(ends, begins and begins + q.windows[i] or ends)
  end
  return ends
end

function fixed.usage(st, rec)
  local begins = beginning(st, rec.now)
  if st.last < begins or rec.now >= begins + st.window then return 0 end
  return st.used
end

function fixed.room_at(st, rec) return beginning(st, rec.now) + st.window end

function fixed.charge(st, rec, _, units) st.used = fixed.usage(st, rec) + units end

function fixed.empty_after(st, ms) return beginning(st, ms) + st.window end

function fixed.empty_at(st)
  local begins = beginning(st, st.last)
  if st.last < begins then begins = st.last - st.last % st.window end -- nothing was charged in the calendar window
  return begins + st.window
end

-- late charges units at a ms before the newest charge, or in the same ms.
function fixed.late(st, _, ms, units)
  if beginning(st, ms) == beginning(st, st.last) then st.used = st.used + units end
end

-- append is described in algorithms.lua.
function fixed.append(st, _, moments, units)
  local ends = fixed.empty_after(st, moments[#moments])
  if fixed.empty_at(st) ~= ends then st.used = 0 end
  for i, ms in ipairs(moments) do
    if fixed.empty_after(st, ms) == ends then st.used = st.used + units[i] end
  end
end

function fixed.matters_until(st) return fixed.empty_at(st) - 1 end

-- straight is described with lib.ask.
function fixed.straight(q, s, at, _, requests, head)
  local window, limit, needs, clock, more = q.window, q.limit, q.needs, ask.clock, ask.more
  local now, bound, last, calls, used = clock, false, 0, 0, 0
  if more then now, bound = more.now, more.bound end
  if s ~= '' then
    last, calls, used = unpack(FIELDS, s, at)
    if last > now then
      if q.only_by_clock or last > clock + YEAR then return end
      now = last
    end
  end
  local begins = q.begins
  local from = begins or now - now % window
  local ends = from + window
  if begins and (now < begins or now >= ends) then return end
  local moves = from > last
  if moves then used = 0 end
  local granted = (bound or limit) - used
  if granted >= requests * needs then
    granted = requests
  elseif bound or used > UNITS then
    return
  else
    granted = granted > 0 and (granted - granted % needs) / needs or 0
  end
  local units = granted * q.cost
  if granted < requests and limit < used + units + needs then
    ask.room = ends
  elseif q.cost == 0 and granted > 0 then
    granted = requests
  end
  if units == 0 then
    return granted * SHIFT + rate_at(clock, last, calls), used, moves and last - last % window + window or ends, false
  end
  local rate, rated = charged(now, last, calls, clock)
  ask.ends, ask.moves = ends - 1, moves
  if not head then ask.area = '' end
  return granted * SHIFT + rated, used, ends, pack('>c0I6I4I6', head or '', now, rate, used + units)
end
