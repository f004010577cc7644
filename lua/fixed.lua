-- fixed.lua: RL.FIXED, one count per window; windows start at multiples of their
-- length since the epoch.

do

local function fresh(window)
  return { FIXED, 1, window, 0, 0, 0, 0, 0, [AREA] = '' }
end

local function used(rec, st)
  if floor(rec.now / st[WINDOW]) > floor(st[LAST] / st[WINDOW]) then return 0 end
  return st[FIRST]
end

local function retry(rec, st)
  return (floor(rec.now / st[WINDOW]) + 1) * st[WINDOW]
end

local function charge(rec, st, _, units)
  st[FIRST] = used(rec, st) + units
end

-- quick decides for a record that holds nothing but one window's count, see slide.lua.
local STATE = '>I5I6I2I2I6' -- from the header's limit to its end
local FULL = '>c12' .. sub(STATE, 2)

local function quick(q, key, s, clock, requests)
  local limit, window, ask = q.limit, q.window, q.ask
  local now, last, before, during, used = clock, 0, 0, 0, 0
  if s ~= '' then
    if sub(s, 1, 12) ~= q.shape then return end
    local _
    _, last, before, during, used = unpack(STATE, s, 13)
    if last > now then now = last end
  end
  local k = floor(now / window)
  if k > floor(last / window) then used = 0 end
  local granted = floor((limit - used) / ask)
  if granted > requests then granted = requests elseif granted < 0 then granted = 0 end
  local units, retry = granted * q.cost, 0
  if units > 0 then
    before, during = count_call(now, last, before, during)
    last = now
    call('SET', key, pack(FULL, q.shape, limit, last, before, during, used + units),
      'PXAT', text_of((k + 1) * window - 1))
  elseif q.cost == 0 and granted > 0 then
    granted = requests
  end
  if granted < requests and used + units + ask > limit then retry = (k + 1) * window end
  return pack(ONE, 0, granted, calls_at(clock, last, before, during), used, retry, last, 0)
end

algorithms[FIXED] = {
  quick = quick,
  fresh = fresh, used = used, retry = retry, charge = charge,
  last = function(st) return st[LAST], 0 end,
}

end
