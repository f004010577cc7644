-- fixed.lua: RL.FIXED, one count per window; windows start at multiples of their
-- length since the epoch.

do

local function fresh(window)
  return state(FIXED, 1, window, '')
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

algorithms[FIXED] = {
  fresh = fresh, used = used, retry = retry, charge = charge,
  last = function(st) return st[LAST], 0 end,
}

end
