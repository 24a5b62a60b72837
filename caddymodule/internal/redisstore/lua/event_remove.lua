#!lua
-- Removes an event from the queue.
--
-- KEYS: bodies, when they are due, when they happened, attempts. ARGV: id.

redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[4], ARGV[1])
return {1}
