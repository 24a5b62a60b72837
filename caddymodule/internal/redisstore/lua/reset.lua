#!lua
-- Sets counters of a day to zero.
--
-- KEYS: the account, its counts of the month, those of its keys.
-- ARGV: day, endpoint or nothing for all, expiry of counts.

if redis.call('EXISTS', KEYS[1]) == 0 then return {0} end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local day, prefix = ARGV[1] .. ':*', ARGV[1] .. ':'

local function text(number) return string.format('%.0f', number) end

-- Removes a counter of the day, and lowers the sums that have it.
local function clear(key, name, sums)
	local used = tonumber(redis.call('HGET', key, name) or 0)
	redis.call('HDEL', key, name)
	for _, sum in ipairs(sums) do
		local rest = tonumber(redis.call('HGET', key, sum) or 0) - used
		redis.call('HSET', key, sum, text(math.max(0, rest)))
	end
end

for key = 2, #KEYS do
	local counts = KEYS[key]
	local new = redis.call('EXISTS', counts) == 0
	if ARGV[2] == '' then
		for _, name in ipairs(redis.call('HKEYS', counts)) do
			local endpoint = string.sub(name, #prefix + 1)
			if string.sub(name, 1, #prefix) == prefix and endpoint ~= '*' then
				clear(counts, name, {endpoint})
			end
		end
		if not new then clear(counts, day, {'*'}) end
	elseif redis.call('HEXISTS', counts, prefix .. ARGV[2]) == 1 then
		clear(counts, prefix .. ARGV[2], {ARGV[2], day, '*'})
	end
	-- A greater generation says that lower counts are no loss.
	if not new or key == 2 then
		local generation = tonumber(redis.call('HGET', counts, 'g') or 0)
		redis.call('HSET', counts, 'g', text(math.max(generation + 1, now)))
		redis.call('EXPIREAT', counts, ARGV[3])
	end
end
return {1}
