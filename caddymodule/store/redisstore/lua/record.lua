#!lua
-- Adds recent calls, and when keys were last used.
--
-- KEYS: the account, its keys, its recent calls.
-- ARGV: handle; most calls; seconds to keep them; number of keys used; for
-- each: its field, the field of its last use, microseconds, address; the calls,
-- oldest first.

local handle = redis.call('HGET', KEYS[1], 'i')
if not handle or ARGV[1] ~= '' and handle ~= ARGV[1] then return {0} end
local arg = 5
for _ = 1, tonumber(ARGV[4]) do
	if redis.call('HEXISTS', KEYS[2], ARGV[arg]) == 1 then
		local last = string.match(redis.call('HGET', KEYS[2], ARGV[arg + 1]) or '0', '^%d+')
		if tonumber(ARGV[arg + 2]) > tonumber(last) then
			redis.call('HSET', KEYS[2], ARGV[arg + 1], ARGV[arg + 2] .. ' ' .. ARGV[arg + 3])
		end
	end
	arg = arg + 4
end
redis.call('LPUSH', KEYS[3], unpack(ARGV, arg))
redis.call('LTRIM', KEYS[3], 0, ARGV[2] - 1)
redis.call('EXPIRE', KEYS[3], ARGV[3])
return {1}
