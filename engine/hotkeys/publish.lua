#!lua flags=allow-oom
-- Stores a proxy's busiest keys in its record, and adds the proxy to the node's index of such records.
-- KEYS: the index; the record. ARGV: the proxy; its record, or an empty string to remove both; the ms for
-- which the record is stored. Returns 1; or 0 if the index is full of other proxies, and then stores nothing.
-- Cost: O(n) with n the proxies in the index. The index is written only when the proxy would soon be gone from it.
--
-- The index is JSON: {proxy: ms until which it is named}. What is not an index counts as an empty one. It is
-- bounded, whatever is stored. A full node takes records, too: they are small, and it is then that they are needed.
-- luacheck: globals KEYS ARGV
local max_bytes, max_proxies, max_ms = 8192, 64, 60000
local proxy, record, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- live returns the proxies that are still named, and their number.
local function live(stored)
  local index, n = {}, 0
  for name, till in pairs(stored) do
    -- A time too far ahead was written before the clock stepped back. Its proxy comes again.
    if n < max_proxies and till > now and till <= now + max_ms then
      index[name], n = till, n + 1
    end
  end
  return index, n
end

local stored = redis.pcall('GETRANGE', KEYS[1], 0, max_bytes - 1)
local decoded, index = pcall(cjson.decode, type(stored) == 'string' and stored or '')
local ok, n
ok, index, n = pcall(live, decoded and index or {})
if not ok then
  index, n = {}, 0
end
if record == '' then
  redis.call('UNLINK', KEYS[2])
  if not index[proxy] then
    return 1
  end
  index[proxy], n = nil, n - 1
elseif not index[proxy] and n == max_proxies then
  return 0
else
  redis.call('SET', KEYS[2], record, 'PX', ttl)
  if index[proxy] and index[proxy] > now + ttl then
    return 1
  end
  index[proxy] = now + 2 * ttl
end
if n == 0 and not index[proxy] then
  redis.call('UNLINK', KEYS[1])
else
  redis.call('SET', KEYS[1], cjson.encode(index), 'PX', 2 * ttl)
end
return 1
