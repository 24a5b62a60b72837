#!lua
-- Deletes the entry of a token, or of an id of a key, if it belongs to a key and
-- was written before a time.
--
-- KEYS: the entry. ARGV: account and key, the time in microseconds.

local of, at = string.match(redis.call('GET', KEYS[1]) or '', '^(.*) (%d+)$')
if of == ARGV[1] and tonumber(at) < tonumber(ARGV[2]) then redis.call('UNLINK', KEYS[1]) end
return 1
