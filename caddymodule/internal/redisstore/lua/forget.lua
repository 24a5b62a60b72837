#!lua
-- Deletes a token if it belongs to a key.
--
-- KEYS: the token. ARGV: account and key.

if redis.call('GET', KEYS[1]) == ARGV[1] then
	redis.call('DEL', KEYS[1])
end
return 1
