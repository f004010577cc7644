-- fixed.lua: RL.FIXED, one count per window. Windows start at multiples of their length since the epoch.
local lib = ...

local unpack, pack = struct.unpack, struct.pack
local rate_at, charged = lib.rate.at, lib.rate.charged
local YEAR, UNITS, SHIFT, ask = lib.schema.YEAR, lib.schema.UNITS, lib.schema.SHIFT, lib.ask
local FIELDS = '>I6I4I6' -- last, rate, the units in the window of last

local fixed = lib.register({
  kind = 3, additive = true, holdable = true, least = 0, most = 1, valid = lib.is_window,
})

local form = {
  bytes = struct.size(FIELDS), area = 0,
  read = function(st, s, at) st.last, st.rate, st.used = unpack(FIELDS, s, at) end,
  write = function(st) return pack(FIELDS, st.last, st.rate, st.used) end,
}
function fixed.fields() return form end

function fixed.usage(st, rec)
  local now, window = rec.now, st.window
  if now - now % window > st.last then return 0 end
  return st.used
end

function fixed.room_at(st, rec) return rec.now - rec.now % st.window + st.window end

function fixed.charge(st, rec, _, units) st.used = fixed.usage(st, rec) + units end

function fixed.empty_after(st, ms) return ms - ms % st.window + st.window end

function fixed.empty_at(st) return fixed.empty_after(st, st.last) end

-- late charges units at a ms before the newest charge, or in the same ms.
function fixed.late(st, _, ms, units)
  if ms >= st.last - st.last % st.window then st.used = st.used + units end
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
  local from = now - now % window
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
    ask.room = from + window
  elseif q.cost == 0 and granted > 0 then
    granted = requests
  end
  if units == 0 then
    return granted * SHIFT + rate_at(clock, last, calls), used, last - last % window + window, false
  end
  local rate, rated = charged(now, last, calls, clock)
  ask.area, ask.ends, ask.moves = '', from + window - 1, moves
  return granted * SHIFT + rated, used, from + window, pack('>c0I6I4I6', head or '', now, rate, used + units)
end
