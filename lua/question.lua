-- question.lua: the part of decide.lua that reads the question text, or finds what was read of it before. Without a
-- kind, it goes the long way.

local known = questions and questions[index]
if known then
  kind, cost, ask, strict, part, window, limit, named, shape, reach, several = spread(known, 1, 11)
else
  kind, reach, several = nil, PREFIX, nil
  local length, flags, buckets = #text, nil, nil
  if length > 10 and length % 10 == 0 then
    cost, flags, kind, buckets, window, limit = unpack('>I6BBI2I5I5', text)
    strict, part = flags % 2 == 1, flags >= 2
    if kind == COUNTER and buckets > 1 or length > 20 and part then
      kind = nil
    elseif length > 20 then
      windows = windows or windows_of(clock)
      reach, several = windows(text, kind, cost, strict)
    else
      ask = cost > 0 and cost or 1
      named = (kind == SLIDE and '\1\0\0\54' or '\1\0\0\33') .. sub(text, 8)
      shape = sub(named, 1, 12)
    end
  end
  if entries ~= '' then
    questions = questions or {}
    questions[index] = { kind, cost, ask, strict, part, window, limit, named, shape, reach, several }
  end
end
