#!lua
-- Deletes an account if it has not changed since it was read.
--
-- KEYS: the account, and everything else that it has. ARGV: the version.
-- Returns 1, or 0 if the version is another one.

if redis.call('HGET', KEYS[1], 'v') ~= ARGV[1] then return 0 end
for n = 1, #KEYS do
	redis.call('UNLINK', KEYS[n])
end
return 1
