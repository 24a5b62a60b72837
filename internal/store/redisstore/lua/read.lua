#!lua
-- Reads a document, unless its version is known.
--
-- KEYS: the document. ARGV: the version that is known, or nothing.
-- Returns the time, and the fields of the document unless it has that version.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if ARGV[1] ~= '' and redis.call('HGET', KEYS[1], 'v') == ARGV[1] then return {now} end
return {now, redis.call('HMGET', KEYS[1], 'i', 'v', 'a', 'k', 'l')}
