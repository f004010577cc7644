-- fixed.lua: RL.FIXED, one count per window. Windows start at multiples of their length since the epoch.
local lib = ...

local unpack, pack = struct.unpack, struct.pack
local rate_at, charged = lib.rate.at, lib.rate.charged
local YEAR, UNITS = lib.layout.YEAR, lib.layout.UNITS
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

function fixed.matters_until(st) return fixed.empty_at(st) - 1 end

-- straight has the arguments and results of slide.straight.
function fixed.straight(q, i, s, at, begin, clock, now, requests, bound, head)
  local window, limit, needs = q.windows[i], q.limits[i], q.needs
  local last, calls, used = 0, 0, 0
  if s ~= '' then
    last, calls, used = unpack('>I6I4I6', s, at)
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
  local units, room, rated, fields = granted * q.cost, 0
  if units > 0 then
    calls, rated = charged(now, last, calls, clock)
    last, fields = now, pack('>c0I6I4I6', head or '', now, calls, used + units)
  end
  if granted < requests and limit < used + units + needs then
    room = from + window
  elseif q.cost == 0 and granted > 0 then
    granted = requests
  end
  rated = rated or rate_at(clock, last, calls)
  return granted, rated, used, room, last - last % window + window, fields, from + window - 1, moves, nil, begin
end
