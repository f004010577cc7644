-- quick_long.lua: the part of quick.lua about a log that is too long for one piece, of which s is the beginning. It
-- admits if all requests are granted, a few entries at most have left the window, and there is a slot.

local LONG_READ = '>I6I2I2I3I3I3I6I6I6'  -- of the header, from last on
local LONG_WRITTEN = '>I5I6I4I3I6I6I6I6' -- from limit on

local units = requests * cost
local first, n, cap, base, total
last, before, during, first, n, cap, base, total, mark = unpack(LONG_READ, s, at)
if last > now then now = last end
local oldest, gone = now - window, 0
if units == 0 or mark < oldest or part and last > clock then break end
local slot = begin - 1 + first * ENTRY
-- Redis takes twice as long to make text of a number.
local block = call('GETRANGE', key, format('%d', slot), format('%d', slot + (cap - first < 16 and cap - first or 16) * ENTRY - 1))
while gone * ENTRY < #block and unpack('>I6', block, gone * ENTRY + 1) < oldest do gone = gone + 1 end
if gone * ENTRY == #block then break end
if gone > 0 then base = unpack('>I6', block, gone * ENTRY - 5) end
used = (total - base) % WRAP
if used + units > (bound or limit) then break end
local ms = now
if limit > 65536 then ms = now + -now % math.ceil(window / 65536) end
first, n, total = (first + gone) % cap, n - gone, (total + units) % WRAP
if mark >= ms then ms = mark elseif n < cap then n = n + 1 else break end
if cap > 256 and n * 4 < cap then break end -- time to rebuild it shorter
before, during = count_call(now, last, before, during)
last, mark = now, ms
if ms + window ~= converted then converted, expiry = ms + window, format('%d', ms + window) end
call('SETRANGE', key, bound and '87' or '12', pack(LONG_WRITTEN, limit, now, before * 65536 + during, first,
  n * 16777216 + cap, base, total, ms))
call('SETRANGE', key, format('%d', begin - 1 + (first + n - 1) % cap * ENTRY), pack('>I6I6', ms, total))
if not bound or converted > unpack('>I6', s, 31) then call('PEXPIREAT', key, expiry) end
