-- home.lua: the home of a split key, which owns the limit, lends pieces of it and alone denies. It is
-- shard/split_home.go, function by function.
--
-- A home's note: parts (how many, itself included); of the leases that are live pairs and strict; seq of the
-- newest loan; calm, ms, before which nothing is lent; lent: per part its number part, seq, born, over, strict, and
-- out, units by the state's name.

local GRACE = 20  -- ms that a loan has to arrive before its part is lent more
local SCARCE = 32 -- below this part of the limit no room is lent

local function homes()
  local m, home = split(), {}

  -- open returns the home's note without what no part can use any more, or nothing.
  function home.open(rec, clock)
    local h = m.open(rec, HOME)
    if not h then return end
    local lent = {}
    for _, l in ipairs(h.lent) do
      local made, any = floor(l.seq / 1000), false
      for name, n in pairs(l.out) do
        if clock > made + LEASE + m.life(name) then l.out[name] = 0 end
        any = any or l.out[name] > 0
      end
      if any then lent[#lent + 1] = l end
    end
    h.lent = lent
    return h
  end

  function home.fresh(count)
    return { parts = count, pairs = '', strict = false, seq = 0, calm = 0, lent = {} }
  end

  -- keep puts the note into the record, for as long as anything lent may count.
  function home.keep(rec, h)
    local ending, lapse, lent = h.calm, -1, 0
    local state, limit = sub(h.pairs, 1, 8), #h.pairs == 13 and unpack('>I5', h.pairs, 9) or 0
    for _, l in ipairs(h.lent) do
      lent = lent + home.counts(l, state, h.strict)
      for name, n in pairs(l.out) do
        local last = floor(l.seq / 1000) + LEASE + m.life(name)
        ending = max(ending, last)
        if n > 0 and (lapse < 0 or last < lapse) then lapse = last end
      end
    end
    m.keep(rec, HOME, h, ending, m.front(HOME, h.pairs, h.strict, limit - lent, lent, 0, lapse, h.parts))
  end

  local function lent_to(h, number)
    for i, l in ipairs(h.lent) do
      if l.part == number then return l, i end
    end
  end

  -- collect takes a report if no loan was made since it was asked for.
  function home.collect(h, r)
    local l = lent_to(h, r.part)
    if not l or r.stale or r.seq < l.seq or r.born ~= l.born then return end
    l.over = l.over or r.over
    if r.strict ~= l.strict then
      for name in pairs(l.out) do
        if not r.used[name] then return end -- it would be counted otherwise than the note says
      end
    end
    for name, n in pairs(r.used) do
      if l.out[name] and (n < l.out[name] or r.strict ~= l.strict) then l.out[name] = n end
    end
    l.strict = r.strict
  end

  local function live(l, clock) return not l.over and clock <= floor(l.seq / 1000) + LEASE end

  local function same(h, text, strict) return h.pairs == text and h.strict == strict end

  -- others tells whether a part may be admitting other requests than these.
  function home.others(h, clock, text, strict)
    if same(h, text, strict) then return false end
    for _, l in ipairs(h.lent) do
      if live(l, clock) then return true end
    end
    return false
  end

  -- counts returns what a part may have in use of a state.
  function home.counts(l, name, strict)
    local n = l.out[name] or 0
    return strict and not l.strict and 2 * n or n
  end

  -- room returns, by pair, what is left of the limit.
  function home.room(h, q, names, uses, others)
    local limits, room = {}, {}
    if others then
      m.each(h.pairs, function(_, name, limit)
        limits[name] = h.strict == q.strict and min(limits[name] or limit, limit) or 0
      end)
    end
    for i, name in ipairs(names) do
      room[i] = min(q.pairs[i][1], limits[name] or q.pairs[i][1]) - uses[i]
      for _, l in ipairs(h.lent) do room[i] = room[i] - home.counts(l, name, q.strict) end
    end
    return room
  end

  -- unread returns the parts to read before the rest may be denied: those that count, or hold the
  -- limit down, and are not in read, see home.decide.
  function home.unread(h, clock, q, names, text, read)
    local recalls, alike = {}, same(h, text, q.strict)
    for _, l in ipairs(h.lent) do
      local needed = not alike and live(l, clock)
      for _, name in ipairs(names) do needed = needed or home.counts(l, name, q.strict) > 0 end
      if needed and not (read[l.part] and read[l.part] >= l.seq) then
        recalls[#recalls + 1] = { l = l, close = not alike }
      end
    end
    return recalls
  end

  -- lend lends the part that missed an even piece of the room, on top of what it has. It returns the loan.
  function home.lend(h, clock, q, names, text, miss, room)
    if h.parts < 2 or clock < h.calm then return end
    local l, at = lent_to(h, miss.part)
    if l and (miss.born ~= l.born or miss.seq ~= l.seq and clock < floor(l.seq / 1000) + GRACE) then return end
    local loan, more = { seq = max(h.seq + 1, clock * 1000), held = {}, rest = {} }, false
    for i, name in ipairs(names) do
      local piece, has = floor(room[i] / h.parts), l and home.counts(l, name, q.strict) or 0
      if room[i] < floor(q.pairs[i][1] / SCARCE) then piece = 0 end
      if has + piece < q.cost then return end
      more = more or piece > 0
      loan.held[i], loan.rest[i] = has + piece, room[i] - piece
    end
    if not more and not miss.over then return end
    local out = {}
    for i, name in ipairs(names) do out[name] = loan.held[i] end
    for name, n in pairs(l and l.out or {}) do -- what it used for other pairs still counts
      if n > 0 and not out[name] then out[name] = home.counts(l, name, q.strict) end
    end
    h.lent[at or #h.lent + 1] = { part = miss.part, seq = loan.seq, born = miss.born, over = false,
      strict = q.strict, out = out }
    h.pairs, h.strict, h.seq = text, q.strict, loan.seq
    return loan
  end

  -- decide returns how many are granted, the room there was by pair, the recalls needed before
  -- the rest is denied, and the loan. read is, by part that was read or is away, the newest seq read.
  function home.decide(h, clock, q, uses, requests, miss, reports, read)
    local names, text = m.names(q)
    if miss and miss.over then
      home.collect(h, miss)
      read[miss.part] = max(read[miss.part] or 0, miss.seq)
    end
    local others = home.others(h, clock, text, q.strict)
    local room = home.room(h, q, names, uses, others)
    local granted = requests
    for _, units in ipairs(room) do granted = max(min(granted, floor(units / q.ask)), 0) end
    if granted < requests then
      local recalls = home.unread(h, clock, q, names, text, read)
      if #recalls > 0 and reports > 0 then h.calm = clock + floor(LEASE / 4) end
      return granted, room, recalls
    end
    if not miss or others then return granted, room, {} end
    local left = {}
    for i, units in ipairs(room) do left[i] = units - granted * q.cost end
    return granted, room, {}, home.lend(h, clock, q, names, text, miss, left)
  end

  return home
end
