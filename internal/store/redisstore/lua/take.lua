#!lua
-- Admits and counts one call, or looks at the room of its limits if the cost
-- is 0. It reads and checks first, and writes last.
--
-- KEYS: the account, its counts of the month [, those of the key], buckets.
-- ARGV: handle, version, day, endpoint, except, numbers. The numbers are in
-- MessagePack, which is faster than text: until, cost, expiry of counts, number
-- of count keys; for each of these: generation and the highest counts seen; for
-- each bucket: period, limit, time that the cost takes and its part; for each
-- quota: count key, counter, limit.
-- Times are in microseconds, until 0 and empty handles and versions are none.
--
-- Returns the result (0 admitted, 1 refused, 2 changed, 3 late, 4 deleted), the
-- time; for each count key: generation, counters; for each bucket: the time
-- until it is full and its part.

local call, format = redis.call, string.format
local handle, version, day, endpoint, except, packed = unpack(ARGV)
local state, time = call('HMGET', KEYS[1], 'i', 'v'), call('TIME')
local now = time[1] * 1000000 + time[2]
if not state[1] or handle ~= '' and state[1] ~= handle then return {4, now} end
if version ~= '' and state[2] ~= version then return {2, now} end
local numbers = cmsgpack.unpack(packed)
local deadline, cost, expiry, groups = numbers[1], numbers[2], numbers[3], numbers[4]
if deadline > 0 and now >= deadline then return {3, now} end

-- The first four are counted. The others are not covered by limits of all
-- endpoints.
local names = {day .. ':' .. endpoint, endpoint, day .. ':*', '*'}
if except ~= '' then
	names[5], names[6] = day .. ':' .. except, except
end
local width = 1 + #names

local at, rows, fresh, restored = 5, {}, {}, {}
for group = 1, groups do
	local row = call('HMGET', KEYS[1 + group], 'g', unpack(names)) -- generation, counters
	fresh[group] = not row[5]
	for n = 1, width do
		row[n] = (row[n] or 0) + 0
	end
	-- A server that lost writes learns what this gate has seen.
	local generation = numbers[at]
	if generation >= row[1] then
		restored[group] = generation > row[1]
		row[1] = generation
		for n = 2, 5 do
			local seen = numbers[at + n - 1]
			if seen > row[n] then
				row[n], restored[group] = seen, true
			end
		end
	end
	rows[group] = row
	at = at + 5
end

local admitted, buckets = true, {}
for key = 2 + groups, #KEYS do
	local period, limit = numbers[at], numbers[at + 1]
	local full, part = now, 0
	local stored = call('GET', KEYS[key])
	if stored then
		full, part = cmsgpack.unpack(stored)
		if part >= limit then -- of a greater limit before
			full, part = full + 1, 0
		end
		if full < now then
			full, part = now, 0
		elseif full > now + period then -- the clock was set back
			full, part = now + period, 0
		end
	end
	local after, rest = full + numbers[at + 2], part + numbers[at + 3]
	if rest >= limit then
		after, rest = after + 1, rest - limit
	end
	if after - now > period or after - now == period and rest > 0 then admitted = false end
	buckets[#buckets + 1] = {KEYS[key], full, part, after, rest}
	at = at + 4
end

for quota = at, #numbers, 3 do
	local row, counter = rows[numbers[quota]], 1 + numbers[quota + 1]
	local used = row[counter]
	if counter > 3 then
		used = used - (row[counter + 2] or 0)
	end
	if used + cost > numbers[quota + 2] then admitted = false end
end

local reply, counts = {admitted and 0 or 1, now}, admitted and cost > 0
for group, row in ipairs(rows) do
	if counts then
		row[2], row[3], row[4], row[5] = row[2] + cost, row[3] + cost, row[4] + cost, row[5] + cost
	end
	if counts or restored[group] and cost > 0 then
		-- Redis would write numbers of Lua as floats, which takes longer.
		call('HSET', KEYS[1 + group], names[1], format('%d', row[2]), names[2], format('%d', row[3]),
			names[3], format('%d', row[4]), names[4], format('%d', row[5]))
		if restored[group] then call('HSET', KEYS[1 + group], 'g', format('%d', row[1])) end
		if fresh[group] then call('EXPIREAT', KEYS[1 + group], expiry) end
	end
	for n = 1, width do
		reply[#reply + 1] = row[n]
	end
end
for _, bucket in ipairs(buckets) do
	local key, full, part, after, rest = unpack(bucket)
	if counts then
		full, part = after, rest
		call('SET', key, cmsgpack.pack(full, part), 'PX', math.ceil((full - now) / 1000) + 1)
	end
	reply[#reply + 1] = full - now
	reply[#reply + 1] = part
end
return reply
