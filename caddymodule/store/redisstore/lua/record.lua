#!lua
-- Adds recent calls, and what keys were used for.
--
-- KEYS: the account, its keys, its recent calls.
-- ARGV: handle; most calls; seconds to keep them; most days of a key; number of
-- keys used; for each: its field, the field of its use, what to add to it; the
-- calls, oldest first.

-- A use is microseconds, an address, and calls by day: see encodeUse.
local function parse(use)
	return string.match(use, '^(%d+) ?(%S*) ?(.*)$')
end

local function sum(days, more)
	local calls, refused, order = {}, {}, {}
	for day, admitted, not_admitted in string.gmatch(days .. ' ' .. more, '(%d+):(%d+):(%d+)') do
		day = tonumber(day)
		if not calls[day] then
			calls[day], refused[day] = 0, 0
			table.insert(order, day)
		end
		calls[day] = calls[day] + tonumber(admitted)
		refused[day] = refused[day] + tonumber(not_admitted)
	end
	table.sort(order)
	local text = {}
	for i = math.max(1, #order - tonumber(ARGV[4]) + 1), #order do
		table.insert(text, string.format('%d:%.0f:%.0f', order[i], calls[order[i]], refused[order[i]]))
	end
	return table.concat(text, ' ')
end

local handle = redis.call('HGET', KEYS[1], 'i')
if not handle or ARGV[1] ~= '' and handle ~= ARGV[1] then return {0} end
local arg = 6
for _ = 1, tonumber(ARGV[5]) do
	if redis.call('HEXISTS', KEYS[2], ARGV[arg]) == 1 then
		local last, from, days = parse(redis.call('HGET', KEYS[2], ARGV[arg + 1]) or '0')
		local at, now_from, more = parse(ARGV[arg + 2])
		if tonumber(at) > tonumber(last) then last, from = at, now_from end
		redis.call('HSET', KEYS[2], ARGV[arg + 1], last .. ' ' .. from .. ' ' .. sum(days, more))
	end
	arg = arg + 3
end
redis.call('LPUSH', KEYS[3], unpack(ARGV, arg))
redis.call('LTRIM', KEYS[3], 0, ARGV[2] - 1)
redis.call('EXPIRE', KEYS[3], ARGV[3])
return {1}
