-- noted.lua: the short way of a question at a home or a part of a split key, taken by nearly all that
-- are granted in whole: the front of the note, see split.lua, says within which bound.
--
-- noted returns the reply of batch.lua, or nothing if the record is not a note and the question's state, if its
-- front does not speak of the question, or if not all requests are granted: the long way answers then,
-- and nothing has been written. It names its functions anew, so that calls that do not come
-- here need not capture them.

-- How a record begins with a note and one state: version, length of the head, the note's kind.
local LOG_AT_HOME = '\1\0\0\129\6'
local LOG_AT_PART = '\1\0\0\129\7'
local AT_HOME = '\1\0\0\108\6'
local AT_PART = '\1\0\0\108\7'

local function noted(q, key, s, requests, clock)
  local part, sub, head = q.part, string.sub, nil
  if q.kind == SLIDE then head = part and LOG_AT_PART or LOG_AT_HOME else head = part and AT_PART or AT_HOME end
  if sub(s, 1, 5) ~= head or q.cost == 0 then return end
  local asked, bound, offset, from, till, parts, name = struct.unpack('>c14I6I6I6I6I2c8', s, 40)
  if asked ~= sub(q.text, 7) or name ~= sub(asked, 2, 9) -- another question, or state
    or clock < from or clock > till then return end
  if part then return q.quick(q, key, s, requests, bound, offset, '>BI7I6I12I6xx', 3) end
  return q.quick(q, key, s, requests, bound, offset, '>I4I7I6I12I6', 33554432 + parts * 256)
end
