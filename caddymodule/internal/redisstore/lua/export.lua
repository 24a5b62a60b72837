#!lua
-- Reads an account and all that it has together, if it has not changed since
-- its keys were read.
--
-- KEYS: the account, its keys, its recent calls, its counts. ARGV: the version.
-- Returns nothing if the version is another one.

if redis.call('HGET', KEYS[1], 'v') ~= ARGV[1] then return {} end
local reply = {
	redis.call('HMGET', KEYS[1], 'i', 'v', 'p', 'd', 'c', 'o', 'l'), redis.call('HGETALL', KEYS[2]),
	redis.call('LRANGE', KEYS[3], 0, -1),
}
for n = 4, #KEYS do
	reply[n] = redis.call('HGETALL', KEYS[n])
end
return reply
