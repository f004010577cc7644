-- noted.lua: the part of quick.lua about records that begin with the note of a split key, at its home or at a part:
-- the front of the note, see split.lua, says within which bound. Nearly all that are granted in whole go
-- this way. The long way answers if the record is not a note and the question's state, and if the front
-- does not speak of the question.

-- How a record begins with a note and one state: version, length of the head, the note's kind.
local LOG_AT_HOME = '\1\0\0\129\6'
local LOG_AT_PART = '\1\0\0\129\7'
local AT_HOME = '\1\0\0\108\6'
local AT_PART = '\1\0\0\108\7'

local head
if kind == SLIDE then head = part and LOG_AT_PART or LOG_AT_HOME else head = part and AT_PART or AT_HOME end
if sub(s, 1, 5) ~= head or cost == 0 then break end
local about, from, till, parts, name
about, bound, offset, from, till, parts, name = unpack('>c14I6I6I6I6I2c8', s, 40)
if about ~= sub(text, 7) or name ~= sub(about, 2, 9) -- another question, or state
  or clock < from or clock > till then break end
at, begin = at + NOTE, begin + NOTE
if part then form, status = '>BI7I6I12I6xx', 3 else form, status = '>I4I7I6I12I6', 33554432 + parts * 256 end
