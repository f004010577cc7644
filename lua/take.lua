-- take.lua: hands a loan to a part. It may be sent any number of times, late or never.
--
-- KEYS[1] the part's stored key
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] seq 7 bytes, born 6, clock 6 (of the miss that it answers), strict 1, then per pair the state's name 8,
--         limit 5, held 6, rest 6
-- returns 1 byte: 1 if it was taken
-- Cost: O(pairs), one write.

local clock = clock_of(ARGV[1])
local key, s = KEYS[1], ARGV[2]
local loan, limits = { held = {}, rest = {} }, {}
loan.seq, loan.born, loan.clock, loan.strict = unpack('>I7I6I6B', s)
loan.strict = loan.strict == 1
for at = 21, #s, 25 do
  local i = #limits + 1
  limits[i] = sub(s, at, at + 12)
  loan.held[i], loan.rest[i] = unpack('>I6I6', s, at + 13)
end
loan.pairs = table.concat(limits)
local rec = load(key, clock, read(key))
if not parts().take(rec, clock, loan) then return '\0' end
save(rec, clock)
return '\1'
