#!lua
-- Adds an event unless its id is known.
--
-- KEYS: known ids by the time until which they are known, bodies, when they
-- are due, when they happened, attempts.
-- ARGV: id; the time until which it is known, in milliseconds; the body, or
-- nothing if it does not wait; when it happened, in microseconds; how many may
-- wait.
-- Returns 1 if it is new, and how many events were dropped.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = redis.call('ZSCORE', KEYS[1], ARGV[1])
if known and tonumber(known) > now or redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then return {0, 0} end
-- Some at a time: a script blocks all calls while it runs.
local old = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 100)
if #old > 0 then redis.call('ZREM', KEYS[1], unpack(old)) end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
-- The set expires with the id that is known longest. EXPIREAT needs no other
-- permission of the user.
local last = tonumber(redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2])
redis.call('EXPIREAT', KEYS[1], string.format('%.0f', math.ceil(last / 1000)))
if ARGV[3] == '' then return {1, 0} end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
redis.call('ZADD', KEYS[3], ARGV[4], ARGV[1])
redis.call('ZADD', KEYS[4], ARGV[4], ARGV[1])
local dropped = 0
while redis.call('ZCARD', KEYS[4]) > tonumber(ARGV[5]) do
	local id = redis.call('ZPOPMIN', KEYS[4])[1]
	redis.call('HDEL', KEYS[2], id)
	redis.call('ZREM', KEYS[3], id)
	redis.call('HDEL', KEYS[5], id)
	dropped = dropped + 1
end
return {1, dropped}
