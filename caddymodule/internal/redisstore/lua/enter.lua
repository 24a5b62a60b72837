#!lua
-- Writes which key a token belongs to, unless it belongs to another one.
--
-- KEYS: the token. ARGV: account and key; expiry in milliseconds, or nothing;
-- account and key that may be replaced.
-- Returns nil, or the account and key that it belongs to.

local value = redis.call('GET', KEYS[1])
if value and value ~= ARGV[1] and value ~= ARGV[3] then return value end
if ARGV[2] == '' then
	redis.call('SET', KEYS[1], ARGV[1])
else
	redis.call('SET', KEYS[1], ARGV[1], 'PXAT', ARGV[2])
end
return nil
