#!lua
-- Notes that an account may soon have entries of the log in its queue.
--
-- KEYS: the accounts. ARGV: account and number of the change. Returns the time.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
return {now}
