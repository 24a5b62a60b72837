#!lua
-- Reads an account and one of its keys together.
--
-- KEYS: the account, its keys. ARGV: the field of the key.
-- Returns the time, the fields of the account, and the key.

local time = redis.call('TIME')
local account = redis.call('HMGET', KEYS[1], 'i', 'v', 'p', 'd', 'c', 'o', 'l')
return {time[1] * 1000000 + time[2], account, redis.call('HGET', KEYS[2], ARGV[1])}
