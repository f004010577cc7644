-- gcra.lua: CL.THROTTLE, the generic cell rate algorithm as redis-cell has it.
--
-- A state is one time: when all charged units will have drained. Units drain at a constant rate, one per interval. A
-- request is admitted if the units in use, with its own, are at most the limit. Durations are in ns, exact in doubles
-- up to 104 days. The clock of a decision is in ns, too: a rate may be above one a ms, and its intervals need not be
-- whole ms.
local lib = ...

local max, min, floor, ceil = math.max, math.min, math.floor, math.ceil
local unpack, pack = struct.unpack, struct.pack
local rate_at, charged = lib.rate.at, lib.rate.charged
local NS, MOST = 1000000, 2 ^ 48 - 1 -- ns per ms; the largest usage that fits into a reply
local YEAR, DRAIN, SHIFT, ask = lib.schema.YEAR, lib.schema.DRAIN, lib.schema.SHIFT, lib.ask

-- last, rate; the ms, and the ns beyond it, at which all charged units have drained; the ns between units.
local FIELDS = '>I6I4I6I3I8'

local gcra = lib.register({
  kind = 4, drains = true,
  ns = 0, -- of the call's clock, beyond its ms; see lib.clock_of
})
lib.gcra = gcra

-- valid: a key has one such state, whatever the rate.
function gcra.valid(_, window) return window == 0 end

local form = {
  bytes = struct.size(FIELDS), area = 0,
  read = function(st, s, at) st.last, st.rate, st.drained, st.beyond, st.interval = unpack(FIELDS, s, at) end,
  write = function(st) return pack(FIELDS, st.last, st.rate, st.drained, st.beyond, st.interval) end,
}
function gcra.fields() return form end

-- usage also sets left, the ns until all has drained. A part of a unit counts as one. A request is decided by its own
-- interval and the clock; the stored interval and rec.now are used only for RL.INSPECT, which has no spec and goes by
-- whole ms.
function gcra.usage(st, rec, _, spec)
  if st.drained > rec.clock + DRAIN then lib.record.damaged(rec.key, 'a rate that never drains') end
  local clock, ns = rec.now, 0
  if spec then clock, ns, st.interval = rec.clock, gcra.ns, spec.interval end
  local left = max((st.drained - clock) * NS + st.beyond - ns, 0)
  st.left = left
  return min(ceil(left / max(st.interval, 1)), MOST)
end

-- Times in a reply are rounded down to ms, not up, as redis-cell does: what is less than a ms away is now.
function gcra.room_at(st, rec, _, most) return rec.clock + floor(max(st.left - most * st.interval, 0) / NS) end

function gcra.empty_at(st, rec) return rec.clock + floor(st.left / NS) end

function gcra.charge(st, rec, _, units)
  st.left = st.left + units * st.interval
  local ns = gcra.ns + st.left
  st.drained, st.beyond = rec.clock + floor(ns / NS), ns % NS
end

-- asked reads the ns between units, and the limit: the units that are admitted at once.
function gcra.asked(q, text, at)
  q.interval, q.limits[1] = unpack(lib.messages.INTERVAL, text, at)
  q.needs = q.cost -- may be 0: then it is denied only while more than the limit is in use
  q.count, q.windows[1] = 1, 0
  q.pairs = pack(lib.schema.NAME, q.kind, q.parameter, 0, min(q.limits[1], 1e12))
end

function gcra.matters_until(st) return st.beyond > 0 and st.drained or st.drained - 1 end

-- straight is described with lib.ask.
function gcra.straight(q, s, at, _, requests, head)
  local limit, needs, interval, ns, clock, more = q.limit, q.needs, q.interval, gcra.ns, ask.clock, ask.more
  local now, last, calls, drained, beyond = more and more.now or clock, 0, 0, 0, 0
  if s ~= '' then
    last, calls, drained, beyond = unpack('>I6I4I6I3', s, at)
    if last > now then now = last end
    if now > clock + YEAR or drained > clock + DRAIN then return end
  end
  local left, used = (drained - clock) * NS + beyond - ns, 0
  if left > 0 then used = min(ceil(left / interval), MOST) else left = 0 end
  local granted = requests
  if limit - used < requests * needs then granted = max(floor((limit - used) / needs), 0) end
  local units, fields, rated = granted * q.cost, false
  if units > 0 then
    calls, rated = charged(now, last, calls, clock)
    left = left + units * interval
    beyond = (ns + left) % NS
    drained = clock + (ns + left - beyond) / NS
    fields = pack('>c0I6I4I6I3I8', head or '', now, calls, drained, beyond, interval)
    ask.ends, ask.moves = beyond > 0 and drained or drained - 1, true
  else
    rated = rate_at(clock, last, calls)
  end
  if granted < requests and limit < used + units + needs then
    ask.room = clock + floor(max(left - (limit - needs) * interval, 0) / NS)
  end
  return granted * SHIFT + rated, used, clock + (left - left % NS) / NS, fields
end
