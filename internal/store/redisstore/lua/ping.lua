#!lua
-- Tries a write. KEYS: a key that expires soon. Returns the time.

redis.call('SET', KEYS[1], '', 'EX', 10)
local time = redis.call('TIME')
return {time[1] * 1000000 + time[2]}
