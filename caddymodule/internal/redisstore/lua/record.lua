#!lua
-- Adds recent calls, and the last uses of keys.
--
-- KEYS: the account, its keys, its recent calls.
-- ARGV: handle; most calls; most refused ones of them; seconds to keep them;
-- number of keys used; for each: its field, the field of its use, its use; the
-- calls, oldest first.

-- The microseconds of a use.
local function at(use) return tonumber(string.match(use, '^%d+')) end

local handle = redis.call('HGET', KEYS[1], 'i')
if not handle or ARGV[1] ~= '' and handle ~= ARGV[1] then return {0} end
local arg = 6
for _ = 1, tonumber(ARGV[5]) do
	local key, field, use = unpack(ARGV, arg, arg + 2)
	if redis.call('HEXISTS', KEYS[2], key) == 1 and at(use) > at(redis.call('HGET', KEYS[2], field) or '0') then
		redis.call('HSET', KEYS[2], field, use)
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
