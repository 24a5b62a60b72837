#!lua
-- KEYS: the cell. ARGV: old value, new value, last time in microseconds,
-- expiry in milliseconds. An empty value means no key.
-- Returns the time in microseconds, the value, and 1 if it was replaced.
local value = redis.call('GET', KEYS[1]) or ''
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if value ~= ARGV[1] or now > tonumber(ARGV[3]) then
	return {now, value, 0}
end
if ARGV[2] == '' then
	redis.call('DEL', KEYS[1])
else
	redis.call('SET', KEYS[1], ARGV[2], 'PXAT', ARGV[4])
end
return {now, ARGV[2], 1}
