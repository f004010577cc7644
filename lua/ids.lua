-- ids.lua: the remembered ids of a key. They are in a hash beside the record, whose name is the stored key's followed
-- by %i.
--
-- An id is stored as its digest, and ids of different kinds are independent. The first 2 bytes of a digest, which have
-- 12 bits, are the name of a field of the hash, a bucket. A bucket's value is the concatenation of its entries. The
-- fields are, with their lengths in bytes:
--
--   entry   the rest of the digest 14, kind 1 (1: ONCE, 2: a reservation, 3: RL.ACQUIRE or AND), the ms at which it
--           expires 6, length of the rest 2; for a hold: 1 if it is forgotten when it lapses 1, the ms that it lasts 5,
--           and its state 6: 0 while it is out, else its final cost plus 1; then the request: the length of a spec 1,
--           and the spec; then the first reply, except for kind 3
--   n       a field: the number of entries of each kind 3 each, the last ms at which the hash matters 6, the ms of the
--           newest request that changed an id 6
--
-- Expired entries are dropped when their bucket is written. So an id costs two Redis calls, however many ids there are.
-- The ids of a bucket are bounded, too: with as many ids of all kinds as a key can have, digests that nobody has chosen
-- leave all buckets below this bound.
local lib = ...

local call, unpack, pack, sub, find = redis.call, struct.unpack, struct.pack, string.sub, string.find
local max = math.max
local schema, record = lib.schema, lib.record
local BUCKETS, FRONT, HOLD = 4096, 23, 12
local COUNTS, ENTRY, HELD = '>I3I3I3I6I6', '>BI6I2', '>BI5I6' -- n; an entry after the digest, and of a hold after that
local DIGEST = 14  -- bytes of the digest in an entry
local SLICE = 4    -- buckets that are swept at once
local LOOKS = 64   -- entries after which a sweep ends
local MOST = 65536 -- ids of one kind
local CROWD = 96   -- ids in one bucket
local NAMES = { 'ids', 'reservations', 'leases' }
local YEAR, ONCE, LEASE = schema.YEAR, 1, 3
local ids = { ONCE = ONCE, LEASE = LEASE } -- kinds
lib.ids = ids

-- The id in memory, which open writes, for one request. There is one at a time, and the table is reused:
--   1, 2, 3           the number of entries of each kind, without this id
--   kind              the kind of the id
--   last              the ms of the newest request that changed an id, from n
--   found             the request and the first reply, if the id is known, else false
--   till, release, ttl, settled
--                     if the id is known, the other fields of its entry
--   crowded           whether its bucket has no room for another id
--   key, hash         the stored key, and the name of its hash
--   bucket, digest    the id's bucket, and the rest of its digest
--   others            the other entries in its bucket
--   ending            the last ms at which the hash matters
--   asked_ttl, asked_release
--                     of a request to hold units: for how many ms, and 1 if units that lapse are forgotten; by_id.open
--                     writes them
--   awaited           of a request for slots: whether its client waits until they are free; by_id.open writes it
local id = { 0, 0, 0, kind = 0, last = 0, found = false, till = 0, release = 0, ttl = 0, settled = 0, crowded = false,
  key = '', hash = '', bucket = '', digest = '', others = '', ending = 0, asked_ttl = 0, asked_release = 0,
  awaited = false }
ids.id = id

-- sift returns a bucket's entries without those that have expired at now, and how many it had. If the bucket is the
-- id's own, it also removes the id's entry, and reads it into memory unless it has expired. It subtracts what it
-- removes from the counts.
local function sift(s, now, own)
  if #s > schema.BUCKET_BYTES then record.damaged(id.key, 'a bucket of ' .. #s .. ' bytes of ids') end
  local at, from, left, count, place = 1, 1, '', 0, own and find(s, id.digest, 1, true)
  while at <= #s do
    local k, till, bytes = unpack(ENTRY, s, at + DIGEST)
    local stop = at + FRONT + bytes
    if not id[k] or stop > #s + 1 then record.damaged(id.key, 'ids that end within themselves') end
    if place and place < at then place = find(s, id.digest, at, true) end
    local mine = place == at and k == id.kind
    if mine or till <= now then
      if at > from then left = left .. sub(s, from, at - 1) end
      from, id[k] = stop, max(id[k] - 1, 0)
      if mine and till > now then
        local begin = at + FRONT
        if k ~= ONCE then
          id.release, id.ttl, id.settled = unpack(HELD, s, begin)
          begin = begin + HOLD
        end
        id.found, id.till = sub(s, begin, stop - 1), till
      end
    end
    at, count = stop, count + 1
  end
  return from < at and left .. sub(s, from) or left, count
end

-- open reads what is stored about an id into memory.
function ids.open(key, kind, field, rest_of_digest, clock)
  id.key, id.hash, id.bucket, id.digest, id.others = key, key .. '%i', field, rest_of_digest, ''
  id.kind, id.found, id.crowded = kind, false, false
  local got = call('HMGET', id.hash, 'n', id.bucket)
  local n, s, count = got[1], got[2]
  if n then
    id[1], id[2], id[3], id.ending, id.last = unpack(COUNTS, n)
    if id.ending > clock + 4 * YEAR or id.last > clock + YEAR then record.damaged(key, 'ids of the far future') end
  else
    id[1], id[2], id[3], id.ending, id.last = 0, 0, 0, 0, 0
  end
  if s then
    id.others, count = sift(s, clock, true)
    id.crowded = count >= CROWD and #id.others == #s
  end
end

-- record opens the key's record at the clock, or at the newest change of an id if that is later. The id may have
-- expired by then.
function ids.record(clock)
  local rec = record.open(id.key, max(clock, id.last))
  if id.till <= rec.now then id.found = false end
  return rec
end

local function counted() return pack(COUNTS, id[1], id[2], id[3], id.ending, id.last) end

-- sweep drops the expired entries of the id's bucket and of some buckets after it. It writes nothing if none has
-- expired.
local function sweep(now)
  local fields, set, first, looks = {}, { id.bucket, id.others }, unpack('>I2', id.bucket), 0
  for i = 1, SLICE do fields[i] = pack('>I2', (first + i) % BUCKETS) end
  for i, s in ipairs(call('HMGET', id.hash, _G.unpack(fields))) do
    if s and looks < LOOKS then
      local left, count = sift(s, now)
      looks = looks + count
      if #left < #s then set[#set + 1], set[#set + 2] = fields[i], left end
    end
  end
  if #set > 2 then call('HSET', id.hash, 'n', counted(), _G.unpack(set)) end
end

-- many reports whether the key may have as many ids of the kind as it can have. It does not count leases, which have
-- cells that count.
local function many() return id[id.kind] >= MOST and id.kind ~= LEASE end

-- full reports whether there may be no room for another id.
function ids.full() return id.crowded or many() end

-- admits raises an error if there is no room for another id.
function ids.admits(now)
  if many() and not id.crowded then sweep(now) end
  if ids.full() then error({ err = 'ERR too many ' .. NAMES[id.kind] .. ' for this key' }) end
end

-- keep stores an id from now until the ms `till`, with its request and the answer. The hash expires somewhat later, so
-- that its expiry seldom has to be changed.
function ids.keep(now, till, asked, answer)
  local kind, moves, rest = id.kind, till > id.ending, asked .. answer
  if kind ~= ONCE then rest = pack(HELD, id.release, id.ttl, id.settled) .. rest end
  id[kind] = id[kind] + 1
  if now > id.last then id.last = now end
  if moves then id.ending = lib.holds.deadline(now, till - now) end
  call('HSET', id.hash, id.bucket, id.others .. id.digest .. pack(ENTRY, kind, till, #rest) .. rest, 'n', counted())
  if moves then record.expire(id.hash, id.ending) end
end

-- drop forgets an id.
function ids.drop(now)
  id.last = max(id.last, now)
  if id[1] + id[2] + id[3] <= 0 then
    call('UNLINK', id.hash)
    return
  end
  if id.others == '' then
    call('HDEL', id.hash, id.bucket)
    call('HSET', id.hash, 'n', counted())
  else
    call('HSET', id.hash, id.bucket, id.others, 'n', counted())
  end
end
