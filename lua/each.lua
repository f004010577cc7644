-- each.lua: the function rl_each answers several requests that have ids, in order. Each is answered as by a call of
-- rl_admit or rl_settle, or renews a lease.
--
-- KEYS    the stored key of each request, unless they are at the end of ARGV, as for rl_decide
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] and on: per request two arguments: those of rl_admit; the one of rl_settle and an empty one; or for a renewal
--         RENEW of messages.lua, and 'renew'
-- returns per request EACH of messages.lua, and the reply or the text of an error, which has charged nothing
-- Cost: the sum of the single calls, with one call of TIME in all.
local lib = ...

local pack = struct.pack
local messages = lib.messages

function lib.each(keys, args)
  local clock, before, count, out = lib.clock_of(args[1]), 0, (#args - 1) / 2, {}
  if #keys == 0 then
    count = (#args - 1) / 3
    keys, before = args, 2 * count + 1
  end
  for i = 1, count do
    local key, kind = keys[before + i], args[2 * i + 1]
    local f = kind == '' and lib.settle_one or kind == 'renew' and lib.renew_one or lib.admit_one
    local ok, reply = pcall(f, key, clock, args[2 * i], kind)
    if not ok then reply = lib.record.explain(key, reply) end
    out[2 * i - 1], out[2 * i] = pack(messages.EACH, #reply + (ok and 0 or messages.ERROR)), reply
  end
  return table.concat(out)
end
