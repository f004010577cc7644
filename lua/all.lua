-- all.lua: the function rl_all answers a multi-key request: either all of its requests are granted, or none is.
--
-- KEYS    the stored keys, unless they are at the end of ARGV, as for rl_decide
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] and on: a spec for each key, see spec.lua
-- returns the clock 6 bytes, 1 if all were granted 1, then for each key the reply of an entry, see decide.lua. If not all were
--         granted, nothing is charged, and granted is 1 for each request that there was room for.
-- Cost: as rl_decide, but each record is read twice.
local lib = ...

local unpack, pack = struct.unpack, struct.pack
local record, spec = lib.record, lib.spec

-- tried takes the place of lib.charge. It charges nothing, and raises an error if the record has no room for a new state.
local function tried(_, q, states)
  for i = 1, q.count do
    if states[i].begin == 0 then record.add(states[i]) end
  end
  return false
end

function lib.all(keys, args)
  local clock, before, count, all, replies = lib.clock_of(args[1]), 0, #keys, true, {}
  if count == 0 then
    count = (#args - 1) / 2
    keys, before = args, count + 1
  end
  for i = 1, count do
    local key = keys[before + i]
    local ok, reply = pcall(function()
      local q = spec.of(args[i + 1])
      local entry = lib.answer(record.open(key, clock), q, 1, tried)
      all = all and unpack('>I4', entry, #entry - 6 - 24 * q.count) == 1
      return entry
    end)
    all, replies[i] = all and ok, ok and reply or lib.failure(key, args[i + 1], reply)
  end
  for i = 1, all and count or 0 do replies[i] = lib.entry(spec.of(args[i + 1]), keys[before + i], clock) end
  return pack('>I6B', clock, all and 1 or 0) .. table.concat(replies)
end
