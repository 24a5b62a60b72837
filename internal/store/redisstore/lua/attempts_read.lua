#!lua
-- KEYS: the cell. Returns the time in microseconds, the value, and 0.
-- Not flagged no-writes: a server that refuses changes must not decide.
local value = redis.call('GET', KEYS[1]) or ''
local time = redis.call('TIME')
return {time[1] * 1000000 + time[2], value, 0}
