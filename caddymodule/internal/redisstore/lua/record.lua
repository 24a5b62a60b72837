#!lua
-- Adds recent calls, and what keys were used for.
--
-- KEYS: the account, its keys, its recent calls.
-- ARGV: handle; most calls; most refused ones of them; seconds to keep them; most
-- days of a key; number of keys used; for each: its field, the field of its use,
-- what is added to that; the calls, oldest first.

-- Merges two uses: the microseconds and the address of the later one, and the
-- sums of the admitted and refused calls of each day.
local function merge(use, more)
	local last, at, days = string.match(use, '^((%d+) %S+)(.*)$')
	local next_last, next_at, more_days = string.match(more, '^((%d+) %S+)(.*)$')
	local calls, refused, order = {}, {}, {}
	for day, admitted, not_admitted in string.gmatch(days .. more_days, '(%d+):(%d+):(%d+)') do
		day = tonumber(day)
		if not calls[day] then
			calls[day], refused[day] = 0, 0
			table.insert(order, day)
		end
		calls[day] = calls[day] + tonumber(admitted)
		refused[day] = refused[day] + tonumber(not_admitted)
	end
	table.sort(order)
	local text = {tonumber(next_at) > tonumber(at) and next_last or last}
	for i = math.max(1, #order - tonumber(ARGV[5]) + 1), #order do
		table.insert(text, string.format('%d:%.0f:%.0f', order[i], calls[order[i]], refused[order[i]]))
	end
	return table.concat(text, ' ')
end

local handle = redis.call('HGET', KEYS[1], 'i')
if not handle or ARGV[1] ~= '' and handle ~= ARGV[1] then return {0} end
local arg = 7
for _ = 1, tonumber(ARGV[6]) do
	local key, field, more = unpack(ARGV, arg, arg + 2)
	if redis.call('HEXISTS', KEYS[2], key) == 1 then
		redis.call('HSET', KEYS[2], field, merge(redis.call('HGET', KEYS[2], field) or '0 -', more))
	end
	arg = arg + 3
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
