#!lua
-- Gives one call back. A counter never falls below zero.
--
-- KEYS: the account, its counts of the month [, those of the key].
-- ARGV: handle, cost, day, endpoint, new generation.
-- Returns the time; for each count key: generation, counters.

local time = redis.call('TIME')
local reply = {time[1] * 1000000 + time[2]}
local handle = redis.call('HGET', KEYS[1], 'i')
if not handle or ARGV[1] ~= '' and handle ~= ARGV[1] then return reply end
local names = {ARGV[3] .. ':' .. ARGV[4], ARGV[4], ARGV[3] .. ':*', '*'}
for key = 2, #KEYS do
	local counters = redis.call('HMGET', KEYS[key], unpack(names))
	local back = math.min(tonumber(ARGV[2]), tonumber(counters[1] or 0))
	if back > 0 then
		local fields = {'g', ARGV[5]}
		for n = 1, 4 do
			counters[n] = math.max(0, counters[n] - back)
			fields[#fields + 1] = names[n]
			fields[#fields + 1] = string.format('%.0f', counters[n])
		end
		redis.call('HSET', KEYS[key], unpack(fields))
		reply[#reply + 1] = ARGV[5]
		for n = 1, 4 do
			reply[#reply + 1] = counters[n]
		end
	end
end
return reply
