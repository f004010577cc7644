-- bucket.lua: RL.BUCKET, the token bucket. The limit is its capacity, and `parameter` tokens come per window,
-- continuously.
--
-- A state is one time: when the bucket is full again, in us and a fraction of one, whose denominator is the parameter.
-- With that, a token takes window / parameter exactly, and nothing is ever rounded. What counts is the tokens that are
-- missing, a part of one as a whole. Products may be longer than 53 bits: see divide.
local lib = ...

local max, min, floor, ceil, fmod = math.max, math.min, math.floor, math.ceil, math.fmod
local unpack, pack = struct.unpack, struct.pack
local DRAIN = lib.schema.DRAIN
local FIELDS = '>I6I4I6I2I5' -- last, rate; when the bucket is full: the ms, the us beyond it, and the fraction of one
local MOST = 2e12 -- tokens that are missing, at most, in a reply
local FILL = 4611686018427387 -- us in which a bucket may fill, at most: limit.MaxFill in Go

local bucket = lib.register({ kind = 9, holdable = true, drains = true })

function bucket.valid(parameter, window)
  return parameter >= 1 and parameter <= 1e12 and lib.is_window(parameter, window)
end

local form = {
  bytes = struct.size(FIELDS), area = 0,
  read = function(st, s, at) st.last, st.rate, st.full, st.beyond, st.part = unpack(FIELDS, s, at) end,
  write = function(st) return pack(FIELDS, st.last, st.rate, st.full, st.beyond, st.part) end,
}
function bucket.fields() return form end

-- divide returns the quotient of a * b + more and c, and the remainder, exactly: by long division with digits of 7 bits
-- where the product has more than 53. a is below 2^53, b, c and more are below 2^45, and more is below c.
local function divide(a, b, c, more)
  local rest = b % c
  local whole = a * ((b - rest) / c)
  local all = a * rest + more
  if all < 2 ^ 53 then
    local left = fmod(all, c)
    return whole + (all - left) / c, left
  end
  local quotient, left, digit = 0, 0, 2 ^ 49
  while digit >= 1 do
    local t = left * 128 + floor(a / digit) % 128 * rest + (digit == 1 and more or 0)
    left = fmod(t, c)
    quotient, digit = quotient * 128 + (t - left) / c, digit / 128
  end
  return whole + quotient, left
end

-- look sets now; left, the us until the bucket is full; and rest, the fraction of one. Both are 0 if it is. A request
-- goes by the us of the clock, unless the key's newest charge is later; RL.INSPECT, which has no spec, goes by whole
-- ms.
local function look(st, rec, spec)
  local us = spec and rec.now == rec.clock and floor(lib.gcra.ns / 1000) or 0
  if st.full > rec.clock + DRAIN or st.part >= st.parameter then
    lib.record.damaged(rec.key, 'a bucket that never fills')
  end
  st.now, st.us, st.left, st.rest = rec.now, us, (st.full - rec.now) * 1000 + st.beyond - us, st.part
  if st.left < 0 then st.left, st.rest = 0, 0 end
end

-- later returns the ms at which a number of us from now has passed.
local function later(rec, us) return rec.now + ceil(us / 1000) end

function bucket.usage(st, rec, _, spec)
  look(st, rec, spec)
  local missing, part = divide(st.left, st.parameter, st.window * 1000, st.rest)
  return min(missing + min(part, 1), MOST)
end

function bucket.room_at(st, rec, _, most)
  local full, rest = divide(most, st.window * 1000, st.parameter, 0)
  return later(rec, st.left - full + (st.rest > rest and 1 or 0))
end

function bucket.charge(st, rec, _, units)
  local more, part = divide(units, st.window * 1000, st.parameter, st.rest)
  st.left, st.rest = st.left + min(more, FILL), part
  local us = st.us + st.left
  st.full, st.beyond, st.part = rec.now + floor(us / 1000), us % 1000, st.rest
end

function bucket.empty_at(st, rec) return later(rec, st.left + min(st.rest, 1)) end

-- empty_after returns the ms at which the bucket is full if so many more tokens are taken now.
function bucket.empty_after(st, _, _, units)
  local more, part = divide(units, st.window * 1000, st.parameter, st.rest)
  return later(st, st.left + min(more, FILL) + min(part, 1))
end

function bucket.matters_until(st) return st.beyond + st.part > 0 and st.full or max(st.full - 1, 0) end
