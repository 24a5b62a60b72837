#!lua
-- Sets counters of a day to zero.
--
-- KEYS: the account, its counts of the month, those of its keys.
-- ARGV: day, endpoint or nothing for all, new generation, expiry of counts.

if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local prefix = ARGV[1] .. ':'
for key = 2, #KEYS do
	local new = redis.call('EXISTS', KEYS[key]) == 0
	for _, name in ipairs(redis.call('HKEYS', KEYS[key])) do
		local endpoint = string.sub(name, #prefix + 1)
		if string.sub(name, 1, #prefix) == prefix and endpoint ~= '*' and (ARGV[2] == '' or ARGV[2] == endpoint) then
			local used = tonumber(redis.call('HGET', KEYS[key], name))
			redis.call('HDEL', KEYS[key], name)
			for _, sum in ipairs({endpoint, prefix .. '*', '*'}) do
				redis.call('HINCRBY', KEYS[key], sum, string.format('%.0f', -used))
			end
		end
	end
	-- The generation says that lower counts are no loss.
	if not new or key == 2 then
		redis.call('HSET', KEYS[key], 'g', ARGV[3])
		redis.call('EXPIREAT', KEYS[key], ARGV[4])
	end
end
return 1
