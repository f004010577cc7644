-- part.lua: a part of a split key, which admits out of what the home lent it. It is
-- shard/split_part.go, function by function.
--
-- A part's note: born and seq; of the lease pairs, strict, held and rest (by pair), taken, lease.

local function parts()
  local m, part = split(), {}

  function part.live(p, rec, clock)
    return p ~= nil and p.taken <= clock and rec.now <= clock and clock < p.lease
  end

  -- keep puts the note into the record, to live until ending.
  function part.keep(rec, p, ending)
    local held, rest = p.held[1] or 0, p.rest[1] or 0
    local limit = #p.pairs == 13 and unpack('>I5', p.pairs, 9) or 0
    m.keep(rec, PART, p, ending, m.front(PART, p.pairs, p.strict, held, limit - held - rest, p.taken, p.lease - 1, 0))
  end

  -- remember makes the note, if there is none, and lets it live for as long as the
  -- home may count a loan that this miss brings. It returns the note.
  local function remember(rec, p, clock, names)
    local st, life = find(rec, PART, 0, 1), 0
    for _, name in ipairs(names) do life = max(life, m.life(name)) end
    local made = not p
    p = p or { born = clock, seq = 0, pairs = '', strict = false, held = {}, rest = {}, taken = 0, lease = 0 }
    if made or st[COUNT] < clock + 2 * LEASE + life then
      part.keep(rec, p, clock + 3 * LEASE + 2 * life)
      return p, true
    end
    return p, false
  end

  -- ask returns how many requests are granted, the room seen by pair, and the miss: nothing if all are,
  -- else clock 6, born 6, seq 7, over 1, and if that is 1, per pair what is used 6, its first expiry 6.
  -- The last is whether the note has to be saved.
  function part.ask(rec, clock, q, sts, uses, requests)
    local p = m.open(rec, PART)
    local names, text = m.names(q)
    local live, granted, rooms = part.live(p, rec, clock), 0, {}
    if live and p.pairs == text and p.strict == q.strict then
      granted = requests
      for i, used in ipairs(uses) do
        granted = max(min(granted, floor((p.held[i] - used) / q.ask)), 0)
        rooms[i] = max(p.held[i] - used + p.rest[i], 0)
      end
    end
    if granted == requests then return granted, rooms, '', false end
    local kept
    p, kept = remember(rec, p, clock, names)
    local miss = { pack('>I6I6I7B', clock, p.born, p.seq, live and 0 or 1) }
    if not live then
      for i, used in ipairs(uses) do
        miss[i + 1] = pack('>I6I6', used, m.first(rec, sts[i], used, q.strict, clock))
      end
    end
    return granted, rooms, table.concat(miss), kept
  end

  -- take takes a loan unless it is old. It returns whether it did.
  function part.take(rec, clock, loan)
    local p, st = m.open(rec, PART)
    if not p or loan.born ~= p.born or loan.seq <= p.seq or clock < loan.clock or clock >= loan.clock + LEASE then
      return false
    end
    p.seq, p.pairs, p.strict, p.held, p.rest = loan.seq, loan.pairs, loan.strict, loan.held, loan.rest
    p.taken, p.lease = clock, loan.clock + LEASE
    part.keep(rec, p, st[COUNT])
    return true
  end

  -- recall gives back what is not used. It returns the note, or nothing if there is none, and whether
  -- the recall is stale.
  function part.recall(rec, clock, seq, close)
    local p, st = m.open(rec, PART)
    if not p then return nil, false end
    if seq < p.seq then return p, true end
    local changed = p.seq ~= seq or close and p.lease ~= 0
    p.seq = seq
    if close then p.lease = 0 end
    m.each(p.pairs, function(i, name)
      local held = min(p.held[i], (m.used(rec, name, p.strict, clock)))
      changed = changed or held ~= p.held[i]
      p.held[i] = held
    end)
    if changed then part.keep(rec, p, st[COUNT]) end
    return p, false, changed
  end

  return part
end
