#!lua
-- Adds refused calls of one day.
--
-- KEYS: the rows in order, their calls. ARGV: when they expire; rows and calls.

for n = 2, #ARGV, 2 do
	redis.call('ZADD', KEYS[1], 0, ARGV[n])
	redis.call('HINCRBY', KEYS[2], ARGV[n], ARGV[n + 1])
end
redis.call('EXPIREAT', KEYS[1], ARGV[1])
redis.call('EXPIREAT', KEYS[2], ARGV[1])
return {1}
