#!lua flags=allow-oom
-- Stores a value, renews or removes it, keeps the index of the values' names, and returns the index.
-- KEYS: the value; and the index, unless the value has no name. ARGV: the value's name, or an empty string; the
-- value, or an empty string to keep the stored one; the ms for which it is stored, or 0 to remove it; the first line
-- that the stored value must have (an empty string: there is none), or * if that does not matter; the ms, and nothing
-- is changed if the name is listed for longer, or if they are below 0.
-- Returns 1; or 0 if nothing was changed; or -1 if nothing was because the index is full; the node's time, as TIME; and
-- the index.
-- Cost: O(n) with n the bytes of the value and the names in the index. A full node takes values, too: they are small,
-- or it is then that they are needed.
--
-- The index is JSON: {name: ms until which it is listed}. What is not an index counts as an empty one. It is bounded,
-- whatever is stored. The last word of a name, if it has more than one, is its group. In a full index, the first
-- name of a group takes the place of one of the largest group, so that every group is seen.
-- luacheck: globals KEYS ARGV
local max_line, max_index, max_names, max_ms = 64, 16384, 64, 60000
local name, value, ttl, line, longer = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- live returns the names that are still listed, and their number.
local function live(stored)
  local index, n = {}, 0
  for listed, till in pairs(stored) do
    -- A time too far ahead was written before the clock stepped back. Its name comes again.
    if n < max_names and till > now and till <= now + max_ms then
      index[listed], n = till, n + 1
    end
  end
  return index, n
end

local function group(of) return string.match(of, ' ([^ ]*)$') or '' end

-- displaced returns the name in a full index whose place a new name may take: of the largest group the one that ends
-- first. It returns nil if the new name's group is in the index.
local function displaced(index)
  local sizes, found = {}, nil
  for listed in pairs(index) do sizes[group(listed)] = (sizes[group(listed)] or 0) + 1 end
  if sizes[group(name)] then return nil end
  for listed, till in pairs(index) do
    local size, best = sizes[group(listed)], found and sizes[group(found)] or 0
    if size > best or size == best and till < index[found] then found = listed end
  end
  return found
end

local index, n = {}, 0
if KEYS[2] then
  local stored = redis.pcall('GETRANGE', KEYS[2], 0, max_index - 1)
  local decoded, list = pcall(cjson.decode, type(stored) == 'string' and stored or '')
  local ok, names, count = pcall(live, decoded and list or {})
  if ok then index, n = names, count end
end
local function reply(done) return {done, time[1], time[2], n > 0 and cjson.encode(index) or '{}'} end

if longer < 0 or (index[name] or 0) > now + longer then return reply(0) end
if line ~= '*' then
  local stored = redis.pcall('GETRANGE', KEYS[1], 0, max_line - 1)
  if type(stored) ~= 'string' or (string.match(stored, '^[^\n]*\n') or stored) ~= line then return reply(0) end
end
if KEYS[2] and ttl > 0 then
  if not index[name] then
    local other = n == max_names and displaced(index)
    if other then
      index[other] = nil
    elseif n == max_names then
      return reply(-1)
    else
      n = n + 1
    end
  end
  index[name] = now + ttl
  redis.call('SET', KEYS[2], cjson.encode(index), 'PX', math.max(ttl, max_ms))
elseif KEYS[2] and index[name] then
  index[name], n = nil, n - 1
  if n > 0 then redis.call('SET', KEYS[2], cjson.encode(index), 'PX', max_ms) else redis.call('UNLINK', KEYS[2]) end
end
if ttl == 0 then
  redis.call('UNLINK', KEYS[1])
elseif value ~= '' then
  redis.call('SET', KEYS[1], value, 'PX', ttl)
else
  redis.call('PEXPIREAT', KEYS[1], now + ttl)
end
return reply(1)
