-- forget.lua: ends the reset of a split key at its home, after the parts have forgotten what they used.
--
-- KEYS[1] the home's stored key
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] of each part that forgot: its number 4 bytes, the seq that it was told 7
-- returns 1 byte: 1 if nothing is left, 0 if parts count that did not forget, or were lent to since
-- Cost: O(parts).

local clock = clock_of(ARGV[1])
local key, forgot = KEYS[1], {}
for at = 1, #ARGV[2], 11 do
  local part, seq = unpack('>I4I7', ARGV[2], at)
  forgot[part] = seq
end
local home = homes()
local h = home.open(load(key, clock, read(key)), clock)
call('PUBLISH', 'rl:reset', key) -- to proxies that remember denials
local left = {}
for _, l in ipairs(h and h.lent or {}) do
  if not forgot[l.part] or forgot[l.part] < l.seq then left[#left + 1] = l end
end
if #left == 0 then
  call('UNLINK', key)
  return '\1'
end
h.lent = left
local rec = { key = key, states = {}, now = clock, whole = true }
home.keep(rec, h)
save(rec, clock)
return '\0'
