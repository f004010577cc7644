-- What runs on a Redis node is Lua 5.1 with these modules, and reads and writes no other global.
std = "lua51"
read_globals = { "redis", "struct", "cmsgpack", "cjson" }
max_line_length = 120
