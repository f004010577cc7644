-- noted.lua: the short way of a question at a home or a part of a split key, taken by nearly all that
-- are granted in whole: the front of the note, see split.lua, says within which bound.
--
-- noted returns the reply of batch.lua, or nothing if the record is not a note and the question's state, if its
-- front does not speak of the question, or if not all requests are granted: the long way answers then,
-- and nothing has been written. It names its functions anew, so that calls that do not come
-- here need not capture them.
local function noted(q, key, s, requests, clock)
  local kind, part, unpack, sub = q.kind, q.part, struct.unpack, string.sub
  local head = NOTE + (kind == SLIDE and 54 or 33)
  if #s < head or q.cost == 0 then return end
  if unpack('>I5', s) ~= 4294967296 + head * 256 + (part and PART or HOME) then return end -- version, length, kind
  local ending, room, asked, bound, offset, from, till, parts, name = unpack('>I6I3c14I6I6I6I6I2c8', s, 31)
  if asked ~= sub(q.text, 7) or name ~= sub(asked, 2, 9) -- another question, or state
    or clock < from or clock > till then return end
  local reply = q.quick(q, key, s, requests, room, bound, offset, ending)
  if not reply then return end
  if part then return '\3' .. sub(reply, 2) .. '\0\0' end
  return struct.pack('>BI2B', 2, parts, 0) .. sub(reply, 2)
end
