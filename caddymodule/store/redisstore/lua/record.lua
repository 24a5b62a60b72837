#!lua
-- Adds recent calls, and what keys were used for.
--
-- KEYS: the account, its keys, its recent calls.
-- ARGV: handle; most calls; most refused ones of them; seconds to keep them; most
-- days of a key; number of keys used; for each: its field, the field of its last
-- use, the last use, the field of its days, the days to add; the calls, oldest
-- first.

-- A last use begins with microseconds.
local function at(use)
	return tonumber(string.match(use, '^%d+'))
end

-- Days are separated by spaces: the day, its admitted and its refused calls.
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
	for i = math.max(1, #order - tonumber(ARGV[5]) + 1), #order do
		table.insert(text, string.format('%d:%.0f:%.0f', order[i], calls[order[i]], refused[order[i]]))
	end
	return table.concat(text, ' ')
end

local handle = redis.call('HGET', KEYS[1], 'i')
if not handle or ARGV[1] ~= '' and handle ~= ARGV[1] then return {0} end
local arg = 7
for _ = 1, tonumber(ARGV[6]) do
	local key, last, use, days, more = unpack(ARGV, arg, arg + 4)
	if redis.call('HEXISTS', KEYS[2], key) == 1 then
		if at(use) > at(redis.call('HGET', KEYS[2], last) or '0') then
			redis.call('HSET', KEYS[2], last, use)
		end
		redis.call('HSET', KEYS[2], days, sum(redis.call('HGET', KEYS[2], days) or '', more))
	end
	arg = arg + 5
end

local function is_refused(row) return string.sub(row, 1, 5) == '{"c":' end

-- Most writes have no refused call, and need not read the list.
local refused = false
for i = arg, #ARGV do
	refused = refused or is_refused(ARGV[i])
end
redis.call('LPUSH', KEYS[3], unpack(ARGV, arg))
if refused then
	local room, kept = tonumber(ARGV[3]), {}
	for _, row in ipairs(redis.call('LRANGE', KEYS[3], 0, -1)) do
		if is_refused(row) then room = room - 1 end
		if room >= 0 or not is_refused(row) then table.insert(kept, row) end
	end
	redis.call('UNLINK', KEYS[3])
	redis.call('RPUSH', KEYS[3], unpack(kept))
end
redis.call('LTRIM', KEYS[3], 0, ARGV[2] - 1)
redis.call('EXPIRE', KEYS[3], ARGV[4])
return {1}
