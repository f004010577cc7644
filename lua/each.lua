-- each.lua: the function rl_each answers several requests that have ids, in order. Each is answered as by a call of rl_admit
-- or rl_settle.
--
-- KEYS    the stored key of each request, unless they are at the end of ARGV, as for rl_decide
-- ARGV[1] the clock in ms; empty: the node's own
-- ARGV[2] and on: per request the two arguments of rl_admit, or the one of rl_settle and an empty one
-- returns per request the length of the reply 2 bytes, and the reply; the length is 0 if the request failed and charged nothing
-- Cost: the sum of the single calls, with one call of TIME in all.
local lib = ...

local pack = struct.pack

function lib.each(keys, args)
  local clock, before, count, out = lib.clock_of(args[1]), 0, #keys, {}
  if count == 0 then
    count = (#args - 1) / 3
    keys, before = args, 2 * count + 1
  end
  for i = 1, count do
    local f = args[2 * i + 1] == '' and lib.settle_one or lib.admit_one
    local ok, reply = pcall(f, keys[before + i], clock, args[2 * i], args[2 * i + 1])
    out[2 * i - 1], out[2 * i] = ok and pack('>I2', #reply) or '\0\0', ok and reply or ''
  end
  return table.concat(out)
end
