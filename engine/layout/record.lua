#!lua flags=allow-oom
-- Reads a node's record of layouts, and keeps one proxy's layout in it.
-- KEYS: the record. ARGV: the layout; the index of this node in it; the proxy; the ms for which the
-- proxy is noted, or 0 to remove it. Returns the node's time, as TIME, and the record.
-- Cost: O(n) with n the proxies in the record. It writes only when half of the time has passed.
--
-- The record is JSON: [{"list": layout, "index": index, "proxies": {proxy: ms until which it is noted}}, ...].
-- What is not a record counts as an empty one. It is bounded, whatever is stored.
-- luacheck: globals KEYS ARGV
local max_bytes, max_layouts, max_proxies, max_ms = 1048576, 16, 32, 60000
local list, index, proxy, ttl = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- live returns the proxies that are noted still, their number, the first to end and when the last ends.
local function live(stored)
  local proxies, n, first, last = {}, 0, nil, 0
  for name, till in pairs(stored) do
    -- A time too far ahead was written before the clock stepped back. Its proxy comes again.
    if till > now and till <= now + max_ms then
      proxies[name], n, last = till, n + 1, math.max(last, till)
      if not first or till < proxies[first] then
        first = name
      end
    end
  end
  return proxies, n, first, last
end

-- update returns what the record holds now, whether that must be written, and whether it holds nothing.
local function update(stored)
  local record, own = {}, nil
  for i = 1, math.min(#stored, max_layouts) do
    local e = stored[i]
    local proxies, n, first, last = live(e.proxies)
    if n > 0 then
      e = {list = e.list, index = e.index, proxies = proxies}
      record[#record + 1] = e
      if e.list == list and e.index == index then
        own = {entry = e, n = n, first = first, last = last, at = #record}
      end
    end
  end
  local write
  if ttl == 0 then
    write = own ~= nil and own.entry.proxies[proxy] ~= nil
    if write then
      own.entry.proxies[proxy] = nil
      if own.n == 1 then
        table.remove(record, own.at)
      end
    end
  elseif not own then
    if #record == max_layouts then
      table.remove(record)
    end
    write, record[#record + 1] = true, {list = list, index = index, proxies = {[proxy] = now + ttl}}
  else
    local till = own.entry.proxies[proxy]
    if not till and own.n >= max_proxies then -- others are noted in place of this one
      till = own.last
    end
    write = not till or till <= now + ttl / 2
    if write then
      if not own.entry.proxies[proxy] and own.n >= max_proxies then
        own.entry.proxies[own.first] = nil
      end
      own.entry.proxies[proxy] = now + ttl
    end
  end
  return #record > 0 and cjson.encode(record) or '[]', write, #record == 0
end

local stored = redis.pcall('GETRANGE', KEYS[1], 0, max_bytes - 1)
local decoded, record = pcall(cjson.decode, type(stored) == 'string' and stored or '')
local ok, text, write, empty = pcall(update, decoded and record or {})
if not ok then
  text, write, empty = update({})
end
if write and empty then
  redis.call('UNLINK', KEYS[1])
elseif write then
  redis.call('SET', KEYS[1], text, 'PX', max_ms)
end
return {time[1], time[2], text}
