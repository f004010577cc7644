-- advance.lua: units that the home of a key has advanced to proxies, which admit requests from them in their memory.
-- They count as used until the proxy accounts for them, or until they lapse: at their deadline all are charged. The
-- functions are those of engine/advance/model/home.go, and docs/adr/0011-advances.md says why no limit is exceeded.
--
-- The advances of a key are in a state of the record, of the kind ADVANCES. Its area is a table, as of a lease record:
--   newest   the number of the newest advance
--   reset    the clock at the newest reset
--   out      a list of advances:
--     proxy, spec         who has it, and what may be admitted from it: the spec of a request. Its cost does not matter
--     number, before      its number, and the one until the newest account
--     units               that are not accounted for
--     deadline, span      the ms at which they lapse, and for how many ms they were advanced at last
--     recalled            the clock at which the home recalled it, or 0
-- A record with advances is decided by the slow path. It has the state only as long as something is advanced.
--
-- A key in a calm gets no advances. The calm is in a key of its own, the stored key's name followed by %a, because it
-- must not slow the key down: the ms at which the calm ends, and how long it is.
local lib = ...

local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local max, min, floor, huge = math.max, math.min, math.floor, math.huge
local schema, record, lease, spec, holds = lib.schema, lib.record, lib.lease, lib.spec, lib.holds
local ADVANCES = schema.ADVANCES
local MOST = 64         -- advances of a key
local RESERVE = 16      -- the home keeps the limit divided by RESERVE
local SCARCE = 32       -- it recalls advances when less than the limit divided by SCARCE is left
local PAYS = 8          -- the fewest requests for which units are advanced
local PART = 8          -- a span is at most the shortest window divided by PART
local LONGEST = 2000    -- ms of a span
local PATIENCE = 4      -- an advance counts as silent when its span divided by PATIENCE has passed since its recall
local CALM, LONG_CALM = 1000, 30000 -- ms of the first calm, and of the longest one
local advance = {}
lib.advance = advance

local form = {
  bytes = 12, slot = 1,
  read = function(st, s, at) st.last, st.rate, st.size, st.slots, st.ending = 0, 0, unpack('>I3I3I6', s, at) end,
  write = function(st) return pack('>I3I3I6', st.size, st.slots, st.ending) end,
}
lib.register({
  kind = ADVANCES, valid = function(_, window) return window == 0 end, fields = function() return form end,
  matters_until = function(st) return st.ending end,
})

-- keep puts the table into the record in memory.
local function keep(rec, t)
  local st, ending = rec.advances, 0
  for _, o in ipairs(t.out) do
    local q = spec.of(o.spec)
    for i, name in ipairs(q.names) do
      local life = q.algorithm.drains and q.limits[i] / q.parameter * q.windows[i] or lease.life(name)
      local till, begins = o.deadline + min(life, schema.DRAIN) + math.ceil(q.windows[i] / 65536), q.each[i].begins
      ending = max(ending, begins and begins + q.windows[i] or till)
    end
  end
  if not st then
    if #t.out == 0 then return end
    st = record.state(ADVANCES, 1, 0)
    record.add(st)
    rec.advances = st
  end
  if #t.out == 0 then rec.rewrite = true end -- drops the state
  st.ending = floor(ending)
  lease.write(rec, st, t)
end

-- charge charges units of every window of a spec at several moments, which are in order and not after the clock.
local function charge(rec, q, moments, units)
  local now, operations = rec.now, q.algorithm
  for i = 1, q.count do
    local st, limit = record.find(q.kind, q.parameters[i], q.windows[i]), q.limits[i]
    if not st then
      st = record.state(q.kind, q.parameters[i], q.windows[i])
      record.add(st)
    end
    local newest = st.last
    if operations.late then st.area = st.area or record.area(st) end -- charges in memory are to be read again
    for j, ms in ipairs(operations.insert and {} or moments) do
      if ms <= st.last and operations.late then
        operations.late(st, rec, ms, units[j])
      else
        rec.now = ms
        operations.usage(st, rec)
        operations.charge(st, rec, limit, units[j])
        st.last = max(st.last, ms)
      end
    end
    rec.now = now
    if operations.insert then operations.insert(st, rec, limit, moments, units) end
    st.last = newest
    for _, ms in ipairs(moments) do
      if ms >= st.last then st.rate, st.last = lib.rate.charged(ms, st.last, st.rate, ms), ms end
    end
    st.limit = min(limit, 1e12)
  end
end

-- load reads the table, whose state is st, and charges the advances whose deadline has come.
function advance.load(rec, st)
  local t = lease.read(st)
  if not t then record.damaged(rec.key, 'advances without their table') end
  rec.advances, rec.advanced = st, t
  local out = {}
  table.sort(t.out, function(a, b) return a.deadline < b.deadline end)
  for _, o in ipairs(t.out) do
    if o.deadline > rec.clock then
      out[#out + 1] = o
    else
      charge(rec, spec.of(o.spec), { o.deadline }, { o.units })
    end
  end
  if #out == #t.out then return end
  t.out, rec.rewrite = out, true
  keep(rec, t)
end

-- each calls back(o, limit, strict) for each advance of a state with units, and with its limit.
local function each(rec, name, back)
  for _, o in ipairs(rec.advanced.out) do
    local q = spec.of(o.spec)
    for i = 1, q.count do
      if q.names[i] == name and o.units > 0 then back(o, q.limits[i], q.strict) end
    end
  end
end

-- weigh adds what is advanced to the units that count, see holds.weigh. While units are advanced under other limits on
-- the same window, the request observes those, too, because proxies admit up to them. It sets st.advanced, what it
-- adds.
function advance.weigh(rec, q, states, uses, strict)
  for i = 1, q.count do
    local st, units, room = states[i], 0, q.limits[i] - uses[i]
    each(rec, q.names[i], function(o, limit, as_strict)
      local used = uses[i]
      if as_strict ~= strict then
        used = used - q.algorithm.usage(st, rec, strict, q) + q.algorithm.usage(st, rec, as_strict, q)
      end
      units, room = units + o.units, min(room, limit - used)
    end)
    if units > 0 then q.algorithm.usage(st, rec, strict, q) end -- charge and room_at continue from it
    st.advanced, uses[i] = q.limits[i] - room + units - uses[i], q.limits[i] - room + units
  end
end

-- begin_calm begins a time without advances. It is twice as long as the one before, unless that is long over. A node on
-- which the key's slot is moving may not have the calm's key: then there is none.
local function begin_calm(key, clock)
  local was = redis.pcall('GET', key .. '%a')
  local till, calm = 0, 0
  if type(was) == 'string' and #was == 11 then till, calm = unpack('>I6I5', was) end
  if clock < till then return end
  calm = (calm == 0 or clock > till + 4 * calm) and CALM or min(2 * calm, LONG_CALM)
  redis.pcall('SET', key .. '%a', pack('>I6I5', clock + calm, calm), 'PX', string.format('%d', 5 * calm))
end

local function calm(key, clock)
  local was = redis.pcall('GET', key .. '%a')
  return type(was) == 'string' and #was == 11 and clock < unpack('>I6', was)
end

-- silent returns whether the home waits no more for an advance to come back.
local function silent(o, clock) return o.recalled > 0 and clock > o.recalled + floor(o.span / PATIENCE) end

-- scarce reports whether a spec's windows, of which units will be used in addition, leave so little that advances are
-- recalled before nothing is left: then hardly any request has to wait for them.
function advance.scarce(q, uses, units)
  local room, limit = huge, huge
  for i = 1, q.count do room, limit = min(room, q.limits[i] - uses[i]), min(limit, q.limits[i]) end
  return room - units < floor(limit / SCARCE)
end

-- recall recalls all advances if any is in the way of a spec. It returns whether the home must not decide yet, because
-- one of those that are in the way may still come back; and whether the table has changed.
function advance.recall(rec, q)
  local clock, waits, all = rec.clock, false, true
  for i = 1, q.count do
    each(rec, q.names[i], function(o)
      all = all and o.recalled > 0
      waits = waits or not silent(o, clock)
    end)
  end
  if all then return waits, false end
  for _, o in ipairs(rec.advanced.out) do
    if o.recalled == 0 then o.recalled = clock end
  end
  if q.cost > 0 then begin_calm(rec.key, clock) end
  redis.call('PUBLISH', 'rl:recall', rec.key)
  keep(rec, rec.advanced)
  return waits, true
end

-- room_at is holds.room_at with advances, none of which comes back before its deadline.
function advance.room_at(st, rec, over, most, strict)
  local left = most - (st.advanced or 0)
  if left >= 0 then return holds.room_at(st, rec, over, left, strict) end
  local last = rec.clock
  for _, o in ipairs(rec.advanced.out) do last = max(last, o.deadline) end
  return st.kind == lib.fixed.kind and lib.fixed.empty_after(st, last) or last + st.window + 1
end

-- empty_at is holds.empty_at with advances: proxies may be admitting from them until now.
function advance.empty_at(st, rec, strict)
  local empty, units = holds.empty_at(st, rec, strict), st.advanced or 0
  if units == 0 then return empty end
  units = units + (st.current or 0)
  return max(empty, st.algorithm.empty_after(st, rec.now, st.limit, units, strict))
end

-- account applies an account. It returns its advance, nil if there is none, and whether it was applied before.
local function account(rec, t, asked)
  local a, clock = asked.account, rec.clock
  if not a then return nil, false end
  for _, o in ipairs(t.out) do
    if o.proxy == asked.proxy and o.before == a.number then return o, true end
    if o.proxy == asked.proxy and o.number == a.number then
      local moments, units = {}, {}
      for _, d in ipairs(a.draws) do
        local at = min(d.at, clock)
        if at >= t.reset then -- some of the ms of a reset come after it
          if #moments == 0 or moments[#moments] < at then moments[#moments + 1], units[#units + 1] = at, 0 end
          units[#units] = units[#units] + d.units
        end
      end
      if #moments > 0 then charge(rec, spec.of(o.spec), moments, units) end
      t.newest = max(t.newest + 1, clock * 1000)
      o.units, o.before, o.number = a.keep, o.number, t.newest
      return o, false
    end
  end
  return nil, true
end

-- grant returns how many units to advance. others is how many advances there are, and has what the asker has.
local function grant(rec, q, want, others, has)
  local states, uses, room, limit = {}, {}, huge, huge
  holds.weigh(rec, q, states, uses, q.strict)
  for i = 1, q.count do room, limit = min(room, q.limits[i] - uses[i]), min(limit, q.limits[i]) end
  local units = min(want - has, floor(room / 2 / max(others, 1)), room - floor(limit / RESERVE))
  return units < PAYS * q.needs and 0 or units
end

-- renew makes or renews the asker's advance o. It returns that, and whether the key is in a calm.
local function renew(rec, t, q, o, asked)
  local clock, span, left, mine = rec.clock, min(asked.span, LONGEST), huge, o ~= nil
  for i = 1, q.count do
    local begins = q.each[i].begins -- no advance is made before a calendar window begins, or lasts beyond its end
    span = min(span, floor(q.windows[i] / PART))
    if begins then left = min(left, clock < begins and 0 or begins + q.windows[i] - clock) end
  end
  for _, other in ipairs(t.out) do -- the answer with the one that it has may still be under way
    mine = mine or other.proxy == asked.proxy and sub(other.spec, lib.messages.FLAGS_AT) == q.about
  end
  if o and o.recalled > 0 or not o and (mine or asked.account or #t.out >= MOST or rec.lease) then return o end
  local calms = asked.want > 0 and calm(rec.key, clock)
  if asked.want == 0 or span == 0 or span > left or calms then
    if o then o.recalled = clock end -- it is not renewed
    return o, calms
  end
  local units = grant(rec, q, asked.want, #t.out + (o and 0 or 1), o and o.units or 0)
  if not o and units > 0 then
    t.newest = max(t.newest + 1, clock * 1000)
    o = { proxy = asked.proxy, spec = asked.spec, number = t.newest, before = 0, units = 0, deadline = 0, span = 0,
      recalled = 0 }
    t.out[#t.out + 1] = o
  end
  if o then o.units, o.deadline, o.span = o.units + units, clock + span, span end
  return o
end

-- The functions rl_advance and rl_account account for a proxy's advance, and make or renew it. They take `ask` and
-- return `terms`, see messages.lua. A node that is out of memory runs rl_account, which must not be asked for units.
--
-- Cost: O(advances), one write if something changes.
lib.account = record.guarded(function(key, clock, message)
  local asked = cmsgpack.unpack(message)
  local q, rec = spec.of(asked.spec), record.open(key, clock)
  local was, t = record.ends(), rec.advanced or { newest = 0, reset = 0, out = {} }
  rec.advanced = t
  local o, again = account(rec, t, asked)
  local calms = false
  if not again then o, calms = renew(rec, t, q, o, asked) end
  local late = asked.account ~= nil and (not o or silent(o, clock))
  local reply = { number = 0, units = 0, deadline = 0, clock = clock, recalled = false, late = late,
    calm = calms or false, lapsed = 0 }
  if o and o.units > 0 then
    reply.number, reply.units, reply.deadline, reply.recalled = o.number, o.units, o.deadline, o.recalled > 0
  end
  local out = {}
  for _, other in ipairs(t.out) do
    if other.units > 0 then out[#out + 1] = other end
  end
  t.out = out
  local changed = rec.rewrite or o and not again
  if changed then keep(rec, t) end
  local states, uses, empty = {}, {}, {}
  holds.weigh(rec, q, states, uses, q.strict)
  for i = 1, q.count do empty[i] = holds.empty_at(states[i], rec, q.strict) end
  if changed then
    record.save(was)
    if rec.held then reply.lapsed = rec.lapsed end
  end
  return cmsgpack.pack({ terms = reply, used = uses, empty = empty })
end)

-- reset puts the advances t of a key that is reset, or was, into the record in memory. They are recalled by the message
-- about the reset.
function advance.reset(rec, t)
  t.reset = rec.clock
  for _, o in ipairs(t.out) do o.recalled = rec.clock end
  keep(rec, t)
end

-- out returns the table if anything is advanced.
function advance.out(rec) return rec.advances and #rec.advanced.out > 0 and rec.advanced end

-- describe returns what is advanced of a window, as a list of the message `advanced`.
function advance.describe(rec, kind, parameter, window)
  local all = {}
  if not rec.advances then return all end
  each(rec, pack(schema.STATE, kind, parameter, window), function(o)
    all[#all + 1] = { proxy = o.proxy, units = o.units, left = o.deadline - rec.clock }
  end)
  return all
end

-- uncounted calls back(kind, parameter, window, limit) for each window that has advances and, by what is stored of it,
-- counts nothing: counts(st) says so.
function advance.uncounted(rec, counts, back)
  local seen = {}
  for _, o in ipairs(rec.advances and rec.advanced.out or {}) do
    local q = spec.of(o.spec)
    for i, name in ipairs(q.names) do
      if not seen[name] and not counts(record.find(q.kind, q.parameters[i], q.windows[i])) then
        back(q.kind, q.parameters[i], q.windows[i], q.limits[i])
      end
      seen[name] = true
    end
  end
end
