#!lua
-- Reads the rows and the counts of an account, if its document has not changed.
--
-- KEYS: values and expiries of the rows; the document, and the counts.
-- ARGV: the version of the document.
-- Returns rows, expiries, and each of the counts; nothing if the version is
-- another one.

if redis.call('HGET', KEYS[3], 'v') ~= ARGV[1] then return {} end
local reply = {redis.call('HGETALL', KEYS[1]), redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')}
for n = 4, #KEYS do
	reply[n - 1] = redis.call('HGETALL', KEYS[n])
end
return reply
