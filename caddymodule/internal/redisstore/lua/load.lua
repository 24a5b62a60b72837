#!lua
-- Reads an account and all of its keys together.
--
-- KEYS: the account, its keys.
-- Returns the fields of the account, and fields and values of the keys.

return {redis.call('HMGET', KEYS[1], 'i', 'v', 'p', 'd', 'c', 'o', 'l'), redis.call('HGETALL', KEYS[2])}
