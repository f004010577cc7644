#!lua flags=allow-oom
-- Replaces the stored policies, or renews their time to live, if they are still those that were read.
-- KEYS: the record. ARGV: the first line that was read, or an empty string if there was no record; the new
-- record, or an empty string to keep the stored one; the ms for which it is stored. Returns 1; or 0 if the
-- record has another first line, and then changes nothing.
-- Cost: O(n) with n the bytes of the new record. A full node takes it, too: limits must be lowered then, most of all.
-- luacheck: globals KEYS ARGV
local max_line = 64
local line, record, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])
local stored = redis.pcall('GETRANGE', KEYS[1], 0, max_line - 1)
if type(stored) ~= 'string' or (string.match(stored, '^[^\n]*\n') or stored) ~= line then
  return 0
end
if record ~= '' then
  redis.call('SET', KEYS[1], record, 'PX', ttl)
else
  local time = redis.call('TIME')
  redis.call('PEXPIREAT', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000) + ttl)
end
return 1
