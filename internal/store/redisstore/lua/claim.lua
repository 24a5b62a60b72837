#!lua
-- Writes which key a token, or an id of a key, belongs to, unless it belongs to
-- another one.
--
-- KEYS: the entry. ARGV: account and key; expiry in milliseconds, or nothing;
-- the entry that may be replaced, or '*' for any.
-- Returns 1 if it was written, the time, and the entry.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local found = redis.call('GET', KEYS[1])
local own = found and string.match(found, '^(.*) %d+$') == ARGV[1]
if found and not own and found ~= ARGV[3] and ARGV[3] ~= '*' then return {0, now, found} end
local entry = ARGV[1] .. ' ' .. string.format('%.0f', now)
if own then
	-- It lives as long as the longest claim of the same key: another change
	-- may have made it.
	redis.call('SET', KEYS[1], entry, 'KEEPTTL')
	if ARGV[2] == '' then
		redis.call('PERSIST', KEYS[1])
	else
		redis.call('PEXPIREAT', KEYS[1], ARGV[2], 'GT')
	end
elseif ARGV[2] == '' then
	redis.call('SET', KEYS[1], entry)
else
	redis.call('SET', KEYS[1], entry, 'PXAT', ARGV[2])
end
return {1, now, entry}
