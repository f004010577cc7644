-- counts.lua: how often a state is charged, for RL.HOTKEYS and for what is split: its record has the charging calls of the
-- second of the last one, and of the second before.

-- count_call notes a charging call at now in the counts of the second of last, during,
-- and of the one before it.
local function count_call(now, last, before, during)
  local seconds = now - now % 1000 - last + last % 1000
  if seconds == 0 then return before, during < 65535 and during + 1 or during end
  return seconds == 1000 and during or 0, 1
end

-- calls_at is the charging calls of the second that ends at now.
local function calls_at(now, last, before, during)
  local elapsed, weighed = now - last + last % 1000, 0
  if elapsed < 1000 then
    weighed = before * (elapsed < 0 and 1000 or 1000 - elapsed)
    return (weighed - weighed % 1000) / 1000 + during
  end
  if elapsed < 2000 then weighed = during * (2000 - elapsed) end
  return (weighed - weighed % 1000) / 1000
end
