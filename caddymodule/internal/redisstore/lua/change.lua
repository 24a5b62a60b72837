#!lua
-- Writes an account and its keys if nothing has changed since they were read.
--
-- KEYS: the account, its keys.
-- ARGV: the version that was read, or nothing for a new account; number of
-- fields of the account; fields and values, with the new version; number of
-- fields of keys to set; fields and values; fields of keys to delete.
-- Returns 1, or 0 if the version is another one.

if (redis.call('HGET', KEYS[1], 'v') or '') ~= ARGV[1] then return 0 end
local function set(key, first, count)
	for n = first, first + 2 * count - 2, 2 do
		redis.call('HSET', key, ARGV[n], ARGV[n + 1])
	end
	return first + 2 * count
end
local arg = set(KEYS[1], 3, tonumber(ARGV[2]))
arg = set(KEYS[2], arg + 1, tonumber(ARGV[arg]))
for n = arg, #ARGV do
	redis.call('HDEL', KEYS[2], ARGV[n])
end
return 1
