#!lua
-- Reads rows of a space that have not expired.
--
-- KEYS: order, values and expiries of the rows.
-- ARGV: 'get' and keys, or 'scan', the least and the greatest key and a limit.
-- Returns keys, values and expiries in milliseconds. With 'get', a row that does
-- not exist has no value.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local keys, values, expiries = {}, {}, {}

local function read(some, all)
	local found = redis.call('HMGET', KEYS[2], unpack(some))
	for n, expires in ipairs(redis.call('ZMSCORE', KEYS[3], unpack(some))) do
		local live = expires and tonumber(expires) > now
		if live or all then
			keys[#keys + 1] = some[n]
			values[#keys], expiries[#keys] = live and found[n], expires
		end
	end
end

if ARGV[1] == 'get' then
	if #ARGV > 1 then read({unpack(ARGV, 2)}, true) end
	return {keys, values, expiries}
end
local from, limit = ARGV[2], tonumber(ARGV[4])
repeat
	local asked = math.min(limit - #keys, 1000) -- unpack has a limit
	local page = redis.call('ZRANGEBYLEX', KEYS[1], from, ARGV[3], 'LIMIT', 0, asked)
	if #page > 0 then
		from = '(' .. page[#page]
		read(page, false)
	end
until #page < asked or #keys == limit
return {keys, values, expiries}
