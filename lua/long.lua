-- long.lua: the long way of a decision: any number of windows, records of any form and length,
-- homes and parts of split keys. It is the end of a function that is called only by
-- calls that need it, and returns one: of a question's text, a key, its record's beginning
-- and the number of requests; it returns the reply that batch.lua describes.

-- lent returns the home's note of a split key of which parts hold something, else nothing.
local function lent(rec)
  if not find(rec, HOME, 0, 1) then return end
  local h = homes().open(rec, clock)
  if h and #h.lent > 0 then return h end
end

local function reset(key, s)
  local h = lent(load(key, clock, s))
  if h then return pack('>BI2BI4I3', 2, h.parts, 1, 1, 0) end
  call('PUBLISH', 'rl:reset', key) -- to proxies that remember denials
  return pack('>BI4I3', 0, call('UNLINK', key), 0)
end

local questions = {}

return function(text, key, s, requests)
  local q = questions[text] or ask_of(text)
  questions[text] = q
  if q.kind == RESET then return reset(key, s) end
  local algorithm = algorithms[q.kind]
  if algorithm.decide then return algorithm.decide(q, key, s, clock, requests) end
  local rec = load(key, clock, s)
  local sts, uses = measure(rec, q)
  local h, granted, kept, open, miss = nil, requests, false, false, ''
  if q.part then
    local rooms
    granted, rooms, miss, kept = parts().ask(rec, clock, q, sts, uses, requests)
    for i, pair in ipairs(q.pairs) do uses[i] = pair[1] - (rooms[i] or 0) end
  else
    h = lent(rec)
    if h then
      local room, recalls
      granted, room, recalls = homes().decide(h, clock, q, uses, requests, nil, 0, {})
      for i, pair in ipairs(q.pairs) do uses[i] = pair[1] - room[i] end
      open = #recalls > 0 and granted < requests or q.cost == 0
    else
      for i, pair in ipairs(q.pairs) do granted = max(min(granted, floor((pair[1] - uses[i]) / q.ask)), 0) end
    end
  end
  -- A question without cost is answered alike to all who ask it.
  local units = granted * q.cost
  if units > 0 then
    charge_all(rec, q, sts, units)
  elseif q.cost == 0 and granted > 0 then
    granted = requests
  end
  local out, calls = {}, 0
  for i, pair in ipairs(q.pairs) do
    local st, over, ms = sts[i], uses[i] + units + q.ask - pair[1], 0
    if granted < requests and over > 0 and not open and not q.part then
      ms = algorithm.retry(rec, st, over, pair[1] - q.ask, q.strict)
    end
    calls = max(calls, calls_at(clock, st[LAST], st[BEFORE], st[DURING]))
    local last, newest = algorithm.last(st)
    out[i] = pack('>I6I6I6I6', uses[i], ms, last, newest)
  end
  if units > 0 or kept then save(rec, clock) end
  local verdicts = table.concat(out)
  if h then return pack('>BI2BI4I3', 2, h.parts, open and 1 or 0, granted, calls) .. verdicts end
  if q.part then return pack('>BI4I3', 3, granted, calls) .. verdicts .. pack('>I2', #miss) .. miss end
  return pack('>BI4I3', 0, granted, calls) .. verdicts
end
