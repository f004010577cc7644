-- spec.lua: what a request asks, as it comes over the wire.
--
--   spec   cost 6 bytes, flags 1 (1: strict, 2: at a shard, 4: a rate), kind 1, buckets 2, then per window its length 5,
--          limit 5; of a rate instead of windows the ns between units 8, and the limit 8: the units admitted at once
local lib = ...

local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local layout, record = lib.layout, lib.record
local RESET = layout.RESET
local NONE = { text = '', bytes = -1, names = {} } -- stands for a directory that no record has
local spec = {}
lib.spec = spec

-- of returns what a spec's text says. Its fields:
--   cost, ask       units a request takes, and at least 1, which is what is asked for
--   strict, shard   its flags
--   kind, buckets, algorithm
--   count, windows, limits, names
--                   the number of windows, and of each its ms, limit, and the 8 bytes that name its state
--   pairs           of all windows together, the 13 bytes of its name and limit
--   limit, interval of a rate
--   about           from the flags to the end: what a lease summary speaks of
--   reach, last     bytes to read of a record, and the index of the last one, as text
--   straight        the algorithm's straight function
--   longest         the longest of the windows
--   fresh, order    the directory of a record that has these states alone, and their places in it: 1, 2 and on
--   directory, places
--                   the same of the record that was read last; places is false if it has not all of the states
--   areas           reports whether the kind's states have areas
--   still           reports whether the fast path may not decide when the key's newest charge is later than the clock
--   forms           see straight.lua
--   told            its length 1 byte, and the text
--   most            bytes of a record from which on it is not inline, or not read in whole
spec.of = record.cache(1000, function(text)
  local cost, flags, kind, buckets = unpack('>I6BBI2', text)
  local q = { text = text, cost = cost, ask = cost > 0 and cost or 1, strict = flags % 2 == 1, shard = flags % 4 >= 2,
    kind = kind, buckets = buckets, algorithm = lib.algorithms[kind], count = 0, windows = {}, limits = {}, names = {},
    pairs = '', about = sub(text, 7), straight = false, fresh = NONE, directory = NONE, order = false, places = false,
    most = layout.INLINE, limit = 0, interval = 0, reach = layout.INLINE, still = false, areas = false,
    longest = 0, forms = false, told = pack('>B', #text) .. text }
  q.last = tostring(q.reach - 1)
  if kind == RESET or #text == 10 then return q end
  if not q.algorithm or not q.algorithm.charge then
    error({ err = 'ERR a spec of unknown kind ' .. kind })
  end
  local rate = flags % 8 >= 4
  if rate then
    q.interval, q.limit = unpack('>I8I8', text, 11)
    q.ask = cost -- nothing is asked for without a cost
    q.count, q.buckets, q.windows, q.limits = 1, 1, { 0 }, { q.limit } -- a key has one state of it, whatever the rate
    q.pairs = pack('>BI2I5I5', kind, 1, 0, math.min(q.limit, 1e12))
  end
  for at = 11, rate and 0 or #text, 10 do
    local i = q.count + 1
    q.count, q.windows[i], q.limits[i] = i, unpack('>I5I5', text, at)
    q.longest = math.max(q.longest, q.windows[i])
    q.names[i] = sub(text, 8, 10) .. sub(text, at, at + 4)
    q.pairs = q.pairs .. q.names[i] .. sub(text, at + 5, at + 9)
  end
  if kind == layout.CONCURRENCY then return q end
  q.fresh = record.new(q.pairs, q.count)
  q.directory, q.reach, q.straight = q.fresh, q.fresh.inline, q.algorithm.straight
  q.last = tostring(q.reach - 1)
  q.order, q.still = {}, q.count > 1 or q.shard
  q.areas = kind == layout.SLIDE or q.buckets > 1
  for i = 1, q.count do q.order[i] = i end
  q.places, q.most = q.order, q.reach
  return q
end)

-- place remembers where the record that begins with s has the states of a spec, if it has all, and with these limits. It
-- returns its directory and the states' places.
function spec.place(q, key, s)
  local d, places, names, found = record.directory(key, s), {}, q.fresh.names, 0
  if not q.order or d.held then
    q.directory, q.places = d, false
    return d, false
  end
  for i = 1, q.count do
    for j = 1, d.count do
      if d.names[j] == names[i] then places[i], found = j, found + 1 end
    end
  end
  if d == q.fresh then places = q.order end
  q.directory, q.places, q.most = d, found == q.count and places, math.min(q.reach, d.inline)
  return d, q.places
end
