-- lighter returns the least e, from e on, at which the oldest sub-window's units count at most left, e n-ths of a ms
-- into the newest, or window if there is none. It follows from the division, give or take one.
local function lighter(window, units, left, e)
  if units <= left then return e end
  local floor = math.floor
  e = math.max(e, floor(window - (left + 1) * window / units) + 1)
  while e > 0 and floor(units * (window - e + 1) / window) <= left do e = e - 1 end
  while e < window and floor(units * (window - e) / window) > left do e = e + 1 end
  return e
end
