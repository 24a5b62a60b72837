#!lua
-- What change.lua and commit.lua do with the rows of a space.
--
-- KEYS[1] to KEYS[3]: order, values and expiries of the rows. Each write is four
-- of ARGV: the key; 'x' and the value that is expected, '-' for no row or ''
-- for any; 'x' and the value to write, or '-' to delete the row; the expiry in
-- milliseconds, or '+inf'.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Tells whether all rows of writes are as expected.
local function expected(first, last)
	for n = first, last, 4 do
		if ARGV[n + 1] ~= '' then
			local value = redis.call('HGET', KEYS[2], ARGV[n])
			local expires = redis.call('ZSCORE', KEYS[3], ARGV[n])
			if expires and tonumber(expires) * 1000 <= now then value = false end
			if (value and 'x' .. value or '-') ~= ARGV[n + 1] then return false end
		end
	end
	return true
end

local function remove(key)
	redis.call('ZREM', KEYS[1], key)
	redis.call('HDEL', KEYS[2], key)
	redis.call('ZREM', KEYS[3], key)
end

-- The space expires with its last row.
local function expire()
	local latest = tonumber(redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2])
	for n = 1, 3 do
		if latest == math.huge then
			redis.call('PERSIST', KEYS[n])
		elseif latest then
			redis.call('PEXPIREAT', KEYS[n], string.format('%.0f', latest))
		end
	end
end

local function write(first, last)
	if last < first then return end
	-- Some expired rows at a time: a script blocks all calls while it runs.
	local over = string.format('%.0f', math.floor(now / 1000))
	for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', over, 'LIMIT', 0, 100)) do remove(key) end
	for n = first, last, 4 do
		local key, value = ARGV[n], ARGV[n + 2]
		if value == '-' then
			remove(key)
		else
			redis.call('ZADD', KEYS[1], 0, key)
			redis.call('HSET', KEYS[2], key, string.sub(value, 2))
			redis.call('ZADD', KEYS[3], ARGV[n + 3], key)
		end
	end
	expire()
end
