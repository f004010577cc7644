-- rate.lua: how often a state is charged, for RL.INSPECT and for splitting by load. A rate is stored as one number: how
-- many calls charged in this second, which is that of the newest charge, plus 65536 times the number for the previous
-- second.
local lib = ...

local rate = {}
lib.rate = rate

-- charged returns a rate after one more call at now, and what at returns for it at the clock. last is the ms of the
-- call before.
function rate.charged(now, last, calls, clock)
  local elapsed, this = now % 1000, calls % 65536
  local passed = now - elapsed - last + last % 1000
  if passed == 0 then
    if this < 65535 then calls, this = calls + 1, this + 1 end
  else
    calls, this = passed == 1000 and this * 65536 + 1 or 1, 1
  end
  if clock ~= now then return calls, rate.at(clock, now, calls) end
  if calls == this then return calls, this end
  local weighed = (calls - this) / 65536 * (1000 - elapsed)
  return calls, (weighed - weighed % 1000) / 1000 + this
end

-- at returns about how many calls charged in the 1000 ms that end at now.
function rate.at(now, last, calls)
  local elapsed, this = now - last + last % 1000, calls % 65536
  if elapsed < 1000 then
    local weighed = (calls - this) / 65536 * (elapsed < 0 and 1000 or 1000 - elapsed)
    return (weighed - weighed % 1000) / 1000 + this
  end
  if elapsed >= 2000 then return 0 end
  local weighed = this * (2000 - elapsed)
  return (weighed - weighed % 1000) / 1000
end
