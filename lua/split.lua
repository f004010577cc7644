-- split.lua: what a split key's home and its parts have in common. shard/split.go says what they do.
--
-- Each keeps a note in its record, a state of the kind HOME or PART whose area is a
-- table packed by cmsgpack, padded so that a changed note is mostly written in place. It is the first
-- state of the record. The end of its header is its front: what the short way must know to admit
-- without the note, see batch.lua.
--
--   front   the question that it speaks of, from its flags on, 14; units that may be in use here 6, what is added to
--           the use for the reply 6, first and last ms in which all this holds 6 and 6, parts 2
--
-- States are named by 8 bytes: kind 1, window 5, buckets 2. pairs are, per pair,
-- the state's name and limit 5.

local LEASE = 1000 -- ms that a loan lasts, counted from before it was asked for
local PAD = 64
local FRONT = '>BBI2I5I5I6I6I6I6I2'

-- split makes the functions, which calls about keys that are not split do not need.
local made
local function split()
  if made then return made end
  local m = {}
  made = m

  local function name_of(kind, window, buckets) return pack('>BI5I2', kind, window, buckets) end

  -- life is how long at most, in ms, a unit of a state counts.
  function m.life(name)
    local kind, window, buckets = unpack('>BI5I2', name)
    return kind == COUNTER and window + math.ceil(window / buckets) or window
  end

  -- names returns the names of a question's states, and its pairs.
  function m.names(q)
    local names, s = {}, {}
    for i, pair in ipairs(q.pairs) do
      names[i] = name_of(q.kind, pair[2], q.buckets)
      s[i] = names[i] .. pack('>I5', pair[1])
    end
    return names, table.concat(s)
  end

  -- each runs do_it with the index, name and limit of each of the pairs.
  function m.each(s, do_it)
    for i = 1, #s / 13 do do_it(i, sub(s, i * 13 - 12, i * 13 - 5), (unpack('>I5', s, i * 13 - 4))) end
  end

  -- used returns what counts of a state, and the ms until the first of it does not.
  function m.used(rec, name, strict, clock)
    local kind, window, buckets = unpack('>BI5I2', name)
    local st = find(rec, kind, window, buckets)
    if not st then return 0, 0 end
    local used = algorithms[kind].used(rec, st, strict)
    return used, m.first(rec, st, used, strict, clock)
  end

  function m.first(rec, st, used, strict, clock)
    if used <= 0 then return 0 end
    return max(algorithms[st[KIND]].retry(rec, st, 1, used - 1, strict) - clock, 1)
  end

  -- open returns a note, if there is one, and its state.
  function m.open(rec, kind)
    local st = find(rec, kind, 0, 1)
    if st and st[FIRST] > 0 then return cmsgpack.unpack(sub(area(rec, st), 1, st[FIRST])), st end
    return nil, st
  end

  -- front packs one. It speaks of one pair, and of amounts that it can hold; without it, only the long way can answer.
  function m.front(at, pairs, strict, bound, offset, from, till, parts)
    if #pairs ~= 13 or bound < 0 or offset < 0 or till < from then return string.rep('\0', 40) end
    local kind, window, buckets, limit = unpack('>BI5I2I5', pairs)
    local flags = (strict and 1 or 0) + (at == PART and 2 or 0)
    return pack(FRONT, flags, kind, buckets, window, limit, bound, offset, from, till, parts)
  end

  -- keep puts a note into the record, for save to write.
  function m.keep(rec, kind, note, ending, front)
    local st, s = find(rec, kind, 0, 1), cmsgpack.pack(note)
    local room = math.ceil(#s / PAD) * PAD
    if not st then
      st = state(kind, 1, 0, '')
      table.insert(rec.states, 1, st)
    end
    st[GROW] = st[CAP] ~= room
    st[FIRST], st[COUNT], st[CAP], st[BASE], st[AREA] = #s, ending, room, front, s .. string.rep('\0', room - #s)
    st[PATCH], st[PATCHED] = st[AREA], st[OFFSET]
  end

  return m
end
