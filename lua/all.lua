-- all.lua: the function rl_all answers a multi-key request: either all of its requests are granted, or none is.
--
-- KEYS    the stored keys, unless they are at the end of ARGV, as for rl_decide
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] and on: a spec for each key
-- returns ALL, and for each key the reply to an entry
-- Cost: as rl_decide, but each record is read twice.
local lib = ...

local pack = struct.pack
local record, spec = lib.record, lib.spec

-- tried, in place of lib.charge, raises an error if a charge could not be stored: if the record has no room for a new
-- state, or is shorter than it should be. What it adds to the record in memory is not saved.
local function tried(rec, q, states)
  for i = 1, q.count do
    if states[i].begin == 0 then record.add(states[i]) end
  end
  if not rec.inline and redis.call('STRLEN', rec.key) < rec.bytes then
    record.damaged(rec.key, 'it ends within its areas')
  end
  return false
end

-- ask returns the reply of an entry that charges nothing, and whether it could be granted.
local function ask(key, clock, text)
  local q = spec.of(text)
  local reply, _, granted = lib.answer(record.open(key, clock), q, 1, tried)
  return reply, granted == 1
end

-- charge returns the reply of an entry that can be granted.
local function charge(key, clock, text) return (lib.entry(spec.of(text), key, clock)), true end

function lib.all(keys, args)
  local clock, before, count, all, replies = lib.clock_of(args[1]), 0, #keys, true, {}
  if count == 0 then
    count = (#args - 1) / 2
    keys, before = args, count + 1
  end
  for _, decide in ipairs({ ask, charge }) do
    for i = 1, all and count or 0 do
      local key, text = keys[before + i], args[i + 1]
      local ok, reply, granted = pcall(decide, key, clock, text)
      all, replies[i] = all and ok and granted, ok and reply or lib.failure(key, text, reply)
    end
  end
  return pack(lib.messages.ALL, clock, all and 1 or 0) .. table.concat(replies)
end
