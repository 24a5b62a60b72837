#!lua
-- Credits calls of an endpoint on a day: raises what is credited to a total, by
-- at most what the account has used, and lowers the counters of the account and
-- of its keys by as much. None falls below zero. What is missing are calls of
-- closed accounts.
--
-- KEYS: what is credited in the month, what closed accounts used, what they were
-- credited, the counts of the account, those of its keys, and the totals of these.
-- ARGV: day, endpoint, total, expiry of counts.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local day, name = ARGV[1] .. ':', ARGV[1] .. ':' .. ARGV[2]

local function text(number) return string.format('%.0f', number) end

local function read(key, name) return tonumber(redis.call('HGET', key, name) or 0) end

local function raise(key, more)
	redis.call('HSET', key, name, text(read(key, name) + more))
	redis.call('EXPIREAT', key, ARGV[4])
end

local missing = math.max(0, ARGV[3] - read(KEYS[1], name) - read(KEYS[3], name))
local back = math.min(missing, read(KEYS[4], name))
local closed = math.min(missing - back, read(KEYS[2], name))
if back > 0 then raise(KEYS[1], back) end
if closed > 0 then
	raise(KEYS[2], -closed)
	raise(KEYS[3], closed)
end
local totals = 4 + (#KEYS - 3) / 2
for n = 4, #KEYS do
	local key = KEYS[n]
	local day = n < totals and day or '31:'
	local name = day .. ARGV[2]
	local own = math.min(back, read(key, name))
	if own > 0 then
		for _, counter in ipairs({name, ARGV[2], day .. '*', '*'}) do
			redis.call('HSET', key, counter, text(math.max(0, read(key, counter) - own)))
		end
		-- After lost writes, the sum of a day can have calls that no endpoint
		-- has. They go when nothing else of the day is left.
		local fields, left = redis.call('HGETALL', key), 0
		for m = 1, #fields, 2 do
			if string.find(fields[m], '^' .. day .. '[^*]') then left = left + fields[m + 1] end
		end
		if left == 0 then
			redis.call('HSET', key, '*', text(math.max(0, read(key, '*') - read(key, day .. '*'))), day .. '*', 0)
		end
		-- A greater generation says that lower counts are no loss.
		redis.call('HSET', key, 'g', text(math.max(read(key, 'g') + 1, now)))
	end
end
return {1}
