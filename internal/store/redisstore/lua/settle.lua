#!lua
-- Adds differences to the counters of one call, below zero to give a part of it
-- back, and sets its paces right. No counter falls below zero, or rises above 2^53:
-- Lua's numbers are exact up to there. Those of a deleted account do not rise from
-- zero. They can become those of a later one with its id, so what was seen says
-- nothing.
--
-- KEYS: the account; a hash of counts for each group; buckets; the receipt if there
-- is one; the overage if it changes.
-- ARGV: handle, day, endpoint, numbers as in take.lua: expiry of counts, difference
-- of the overage, number of groups, number of buckets; for each group: 1 if it is of
-- a total, difference, generation and the highest counts seen; for each bucket:
-- period, limit, since when it was not full in take.lua, 1 to take more or -1 to give
-- back, the time of the difference and its part. Of a receipt, what take.lua has.
-- Returns the time; for each group of an account that exists: generation, counters.
-- Returns nothing if there is another receipt.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local handle = redis.call('HGET', KEYS[1], 'i')
if handle and ARGV[1] ~= '' and handle ~= ARGV[1] then return {now} end
local receipt = tonumber(ARGV[5])
if receipt then
	local own = (handle or '') .. ':'
	if redis.call('GET', KEYS[receipt]) ~= own .. ARGV[6] then return {} end
	redis.call('SET', KEYS[receipt], own .. ARGV[7], 'PX', ARGV[8])
end
local today, endpoint, numbers = ARGV[2], ARGV[3], cmsgpack.unpack(ARGV[4])
local expiry, over, groups, paces = unpack(numbers, 1, 4)

local function text(number) return string.format('%.0f', number) end

local reply, at = {now}, 5
for key = 2, 1 + groups do
	local ofTotal = numbers[at] == 1
	local day = ofTotal and '31' or today
	local names = {day .. ':' .. endpoint, endpoint, day .. ':*', '*'}
	local row = redis.call('HMGET', KEYS[key], 'g', unpack(names))
	local generation, known, counters = tonumber(row[1] or 0), numbers[at + 2], {}
	for n = 1, 4 do
		counters[n] = tonumber(row[n + 1] or 0)
		if handle and known >= generation then
			counters[n] = math.max(counters[n], numbers[at + 2 + n])
		end
	end
	generation = math.max(generation, known)
	local change = math.max(numbers[at + 1], -counters[1])
	if change ~= 0 and (handle or counters[1] > 0) then
		-- A greater generation says that lower counts are no loss.
		if change < 0 then generation = math.max(generation + 1, now) end
		local fields = {'g', text(generation)}
		for n = 1, 4 do
			counters[n] = math.min(math.max(0, counters[n] + change), 2 ^ 53)
			fields[2 * n + 1], fields[2 * n + 2] = names[n], text(counters[n])
		end
		redis.call('HSET', KEYS[key], unpack(fields))
		if not row[5] and not ofTotal then redis.call('EXPIREAT', KEYS[key], expiry) end
	end
	reply[#reply + 1] = generation
	for n = 1, 4 do
		reply[#reply + 1] = counters[n]
	end
	at = at + 7
end

if over ~= 0 then
	local name = today .. ':' .. endpoint
	local before = tonumber(redis.call('HGET', KEYS[#KEYS], name) or 0)
	if handle or before > 0 then
		redis.call('HSET', KEYS[#KEYS], name, text(math.max(0, before + over)))
		redis.call('EXPIREAT', KEYS[#KEYS], expiry)
	end
end
if not handle then return {now} end

for key = 2 + groups, 1 + groups + paces do
	local period, limit, known, sign, whole, rest = unpack(numbers, at, at + 5)
	local full, part, busy = now, 0, now
	local stored = redis.call('GET', KEYS[key])
	if stored then
		full, part, busy = cmsgpack.unpack(stored)
		if full < now then
			full, part, busy = now, 0, now
		end
	end
	local most = math.max(full, now + period)
	if sign > 0 or busy == known then
		full, part = full + sign * whole, part + sign * rest
		if part >= limit then
			full, part = full + 1, part - limit
		elseif part < 0 then
			full, part = full - 1, part + limit
		end
		if full >= most then
			full, part = most, 0
		end
		if full < now then
			redis.call('DEL', KEYS[key])
		else
			redis.call('SET', KEYS[key], cmsgpack.pack(full, part, busy), 'PX', math.ceil((full - now) / 1000) + 1)
		end
	end
	at = at + 6
end
return reply
