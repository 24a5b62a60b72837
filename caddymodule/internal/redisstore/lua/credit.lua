#!lua
-- Credits calls of an endpoint on a day: raises what is credited to a total, by
-- at most what the account has used, and lowers the counters of the account and
-- of its keys by as much. None falls below zero.
--
-- KEYS: the account, what is credited in the month, the counts of the account,
-- those of its keys.
-- ARGV: day, endpoint, total, expiry of counts.

if redis.call('EXISTS', KEYS[1]) == 0 then return {0} end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local day, name = ARGV[1] .. ':', ARGV[1] .. ':' .. ARGV[2]

local function text(number) return string.format('%.0f', number) end

local function read(key, name) return tonumber(redis.call('HGET', key, name) or 0) end

local credited = read(KEYS[2], name)
local back = math.max(0, math.min(ARGV[3] - credited, read(KEYS[3], name)))
redis.call('HSET', KEYS[2], name, text(credited + back))
redis.call('EXPIREAT', KEYS[2], ARGV[4])
for n = 3, #KEYS do
	local key = KEYS[n]
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
