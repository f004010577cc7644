-- ids.lua: what is remembered of the ids of a key: a hash beside its record, the stored key's name with %i at the end.
--
-- An id is known by its digest, and ids of different kinds do not see each other. The first 12 bits of a digest name a
-- field of the hash, a bucket; a bucket's value is its entries, one after the other:
--
--   entry   digest 16 bytes, kind 1, the ms from which on it is unknown 6, length 2, what is remembered
--   n       a field: the number of entries of each kind 3 each, the bucket before which sweep has been 2, the ms until which
--           the hash lives 6, the ms of the newest request that changed an id 6
--
-- Entries that have ended are dropped when their bucket is written. So an id costs two calls of Redis, and as much
-- however many there are.
local lib = ...

local call, unpack, pack, sub, byte = redis.call, struct.unpack, struct.pack, string.sub, string.byte
local max = math.max
local layout, record = lib.layout, lib.record
local BUCKETS, FRONT, COUNTS = 4096, 25, '>I3I3I3I2I6I6'
local SLICE = 256  -- buckets that are swept at once
local MOST = 65536 -- ids of one kind
local NAMES = { 'ids', 'reservations', 'leases' }
local YEAR, LEASE = layout.YEAR, 3
local ids = { ONCE = 1, RESERVATION = 2, LEASE = LEASE } -- the kinds
lib.ids = ids

-- The id in memory. One is at a time, and the table is used again, as the record's are:
--   of, name, field   the key, the hash, and the field of the id
--   digest, kind      of the id
--   1, 2, 3           the number of entries of each kind, but for this one
--   cursor, ending, last
--                     see n
--   rest              the other entries in its bucket
--   found, till       what is remembered of it, if it is known, and until when
local id = { 0, 0, 0, of = '', name = '', field = '', digest = '', kind = 0, cursor = 0, ending = 0, last = 0, rest = '',
  found = false, till = 0 }

-- sift returns a bucket's entries without those that have ended at now and without that of a digest and kind, which it
-- returns, too, if it has not ended: what is remembered of it, and until when. It counts what it leaves out.
local function sift(s, now, digest, kind)
  if #s > layout.BUCKET_BYTES then record.damaged(id.of, 'a bucket of ' .. #s .. ' bytes of ids') end
  local at, from, rest, found, till = 1, 1, '', false, 0
  while at <= #s do
    local d, k, ending, bytes = unpack('>c16BI6I2', s, at)
    local stop = at + FRONT + bytes
    if not id[k] or stop > #s + 1 then record.damaged(id.of, 'ids that end within themselves') end
    local mine = d == digest and k == kind
    if mine or ending <= now then
      rest, from, id[k] = rest .. sub(s, from, at - 1), stop, id[k] - 1
      if mine and ending > now then found, till = sub(s, at + FRONT, stop - 1), ending end
    end
    at = stop
  end
  return rest .. sub(s, from), found, till
end

-- field_of returns the field of a digest. Each is made once: there are BUCKETS of them.
local kept = {}
local function field_of(digest)
  local high, low = byte(digest, 1, 2)
  local n = high * 16 + (low - low % 16) / 16
  local field = kept[n]
  if not field then
    field = pack('>I2', n)
    kept[n] = field
  end
  return field
end

-- open takes into memory what is known of an id at the clock.
function ids.open(key, digest, kind, clock)
  id.of, id.name, id.digest, id.kind = key, key .. '%i', digest, kind
  id.field = field_of(digest)
  local got = call('HMGET', id.name, 'n', id.field)
  local n, bucket, last = got[1], got[2], 0
  if n then
    id[1], id[2], id[3], id.cursor, id.ending, last = unpack(COUNTS, n)
    if id.ending > clock + 4 * YEAR or last > clock + YEAR then record.damaged(key, 'ids of the far future') end
  else
    id[1], id[2], id[3], id.cursor, id.ending = 0, 0, 0, 0, 0
  end
  id.last, id.rest, id.found, id.till = last, '', false, 0
  if bucket then id.rest, id.found, id.till = sift(bucket, clock, digest, kind) end
  return id
end

-- record returns the key's record, which goes by the newest change of an id if that is later than the clock; and so does
-- the id.
function ids.record(clock)
  local rec = record.open(id.of, max(clock, id.last))
  if id.till <= rec.now then id.found = false end
  return rec
end

local function counted()
  for kind = 1, 3 do
    if id[kind] < 0 then id[kind] = 0 end
  end
  return pack(COUNTS, id[1], id[2], id[3], id.cursor, id.ending, id.last)
end

-- sweep drops the entries of the next buckets that have ended.
local function sweep(now)
  local fields, set = {}, { id.field, id.rest }
  for i = 1, SLICE do fields[i] = pack('>I2', (id.cursor + i) % BUCKETS) end
  id.cursor = (id.cursor + SLICE) % BUCKETS
  for i, s in ipairs(call('HMGET', id.name, _G.unpack(fields))) do
    local rest = s and fields[i] ~= id.field and sift(s, now) or s
    if s and #rest < #s then set[#set + 1], set[#set + 2] = fields[i], rest end
  end
  call('HSET', id.name, 'n', counted(), _G.unpack(set))
end

-- full reports whether another id may be too many.
function ids.full()
  return id[id.kind] >= MOST and id.kind ~= LEASE or #id.rest > layout.BUCKET_BYTES - 1024 -- leases have cells that count
end

-- admits fails a request with an id that is not known if there are too many.
function ids.admits(now)
  if not ids.full() then return end
  sweep(now)
  if ids.full() then error({ err = 'ERR too many ' .. NAMES[id.kind] .. ' for this key' }) end
end

-- keep remembers something of an id from now until a ms. The hash lives a bit longer, so that it seldom has to be told so.
function ids.keep(now, till, what)
  local kind, moves = id.kind, till > id.ending
  id[kind] = id[kind] + 1
  if now > id.last then id.last = now end
  if moves then id.ending = lib.holds.deadline(now, till - now) end
  call('HSET', id.name, id.field, id.rest .. id.digest .. pack('>BI6I2', kind, till, #what) .. what, 'n', counted())
  if moves then record.expire(id.name, id.ending) end
end

-- drop forgets an id.
function ids.drop(now)
  id.last = max(id.last, now)
  if id[1] + id[2] + id[3] <= 0 then
    call('UNLINK', id.name)
    return
  end
  if id.rest == '' then
    call('HDEL', id.name, id.field)
    call('HSET', id.name, 'n', counted())
  else
    call('HSET', id.name, id.field, id.rest, 'n', counted())
  end
end
