#!lua
-- Adds a difference to the counters of one call, below zero to give a part of it
-- back. No counter falls below zero, or rises above 2^53: Lua's numbers are exact
-- up to there. Those of a deleted account do not rise from zero. They can become
-- those of a later one with its id, so what was seen says nothing.
--
-- KEYS: the account, its counts of the month [, those of the key].
-- ARGV: handle, day, endpoint, numbers as in take.lua: difference, expiry of counts;
-- for each count key: generation and the highest counts seen.
-- Returns the time; for each count key of an account that exists: generation,
-- counters.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local handle = redis.call('HGET', KEYS[1], 'i')
if handle and ARGV[1] ~= '' and handle ~= ARGV[1] then return {now} end
local day, endpoint, numbers = ARGV[2], ARGV[3], cmsgpack.unpack(ARGV[4])

local function text(number) return string.format('%.0f', number) end

local names = {day .. ':' .. endpoint, endpoint, day .. ':*', '*'}
local reply, at = {now}, 3
for key = 2, #KEYS do
	local row = redis.call('HMGET', KEYS[key], 'g', unpack(names))
	local generation, known, counters = tonumber(row[1] or 0), numbers[at], {}
	for n = 1, 4 do
		counters[n] = tonumber(row[n + 1] or 0)
		if handle and known >= generation then
			counters[n] = math.max(counters[n], numbers[at + n])
		end
	end
	generation = math.max(generation, known)
	local change = math.max(numbers[1], -counters[1])
	if change ~= 0 and (handle or counters[1] > 0) then
		-- A greater generation says that lower counts are no loss.
		if change < 0 then generation = math.max(generation + 1, now) end
		local fields = {'g', text(generation)}
		for n = 1, 4 do
			counters[n] = math.min(math.max(0, counters[n] + change), 2 ^ 53)
			fields[2 * n + 1], fields[2 * n + 2] = names[n], text(counters[n])
		end
		redis.call('HSET', KEYS[key], unpack(fields))
		if not row[5] then redis.call('EXPIREAT', KEYS[key], numbers[2]) end
	end
	reply[#reply + 1] = generation
	for n = 1, 4 do
		reply[#reply + 1] = counters[n]
	end
	at = at + 5
end
return handle and reply or {now}
