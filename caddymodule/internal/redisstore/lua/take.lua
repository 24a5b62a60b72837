#!lua
-- Admits and counts one call, or looks at the room of its limits if the cost
-- is 0. It reads and checks first, and writes last.
--
-- KEYS: the account, its counts of the month [, those of the key], buckets.
-- ARGV: handle, version, until, cost, expiry of counts, day, endpoint, except,
-- number of count keys; for each of these: generation and the highest counts
-- seen; number of quotas; for each: count key, counter, limit; for each bucket:
-- period, limit, time that the cost takes and its part.
-- Times are in microseconds, until 0 and empty handles and versions are none.
--
-- Returns the result (0 admitted, 1 refused, 2 changed, 3 late, 4 deleted), the
-- time; for each count key: generation, counters; for each bucket: the time
-- until it is full and its part.

local call = redis.call
local state = call('HMGET', KEYS[1], 'i', 'v')
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if not state[1] or ARGV[1] ~= '' and state[1] ~= ARGV[1] then return {4, now} end
if ARGV[2] ~= '' and state[2] ~= ARGV[2] then return {2, now} end
local deadline, cost = tonumber(ARGV[3]), tonumber(ARGV[4])
if deadline > 0 and now >= deadline then return {3, now} end

local day, endpoint, except, groups = ARGV[6], ARGV[7], ARGV[8], tonumber(ARGV[9])
-- The first four are counted. The others are not covered by limits of all
-- endpoints.
local names = {day .. ':' .. endpoint, endpoint, day .. ':*', '*'}
if except ~= '' then
	names[5], names[6] = day .. ':' .. except, except
end

local arg, counts, generations, fresh, restored = 10, {}, {}, {}, {}
for group = 1, groups do
	local row = call('HMGET', KEYS[1 + group], 'g', unpack(names))
	local generation, counters = tonumber(row[1] or 0), {}
	for n = 1, #names do
		counters[n] = tonumber(row[n + 1] or 0)
	end
	-- A server that lost writes learns what this gate has seen.
	local known = tonumber(ARGV[arg])
	if known >= generation then
		restored[group] = known > generation
		generation = known
		for n = 1, 4 do
			local seen = tonumber(ARGV[arg + n])
			if seen > counters[n] then
				counters[n], restored[group] = seen, true
			end
		end
	end
	arg = arg + 5
	counts[group], generations[group], fresh[group] = counters, generation, not row[5]
end

local admitted = true
local quotas = tonumber(ARGV[arg])
arg = arg + 1
for _ = 1, quotas do
	local counters, counter = counts[tonumber(ARGV[arg])], tonumber(ARGV[arg + 1])
	local used = counters[counter]
	if counter > 2 then
		used = used - (counters[counter + 2] or 0)
	end
	if used + cost > tonumber(ARGV[arg + 2]) then admitted = false end
	arg = arg + 3
end

local buckets = {}
for key = 2 + groups, #KEYS do
	local period, limit = tonumber(ARGV[arg]), tonumber(ARGV[arg + 1])
	local full, part = now, 0
	local stored = call('GET', KEYS[key])
	if stored then
		local space = string.find(stored, ' ', 1, true)
		full, part = tonumber(string.sub(stored, 1, space - 1)), tonumber(string.sub(stored, space + 1))
		if part >= limit then -- of a greater limit before
			full, part = full + 1, 0
		end
		if full < now then
			full, part = now, 0
		elseif full > now + period then -- the clock was set back
			full, part = now + period, 0
		end
	end
	local after, rest = full + ARGV[arg + 2], part + ARGV[arg + 3]
	if rest >= limit then
		after, rest = after + 1, rest - limit
	end
	if after - now > period or after - now == period and rest > 0 then admitted = false end
	buckets[#buckets + 1] = {KEYS[key], full, part, after, rest}
	arg = arg + 4
end

-- Redis writes numbers of Lua with 17 digits: those here are exact.
if cost > 0 then
	for group = 1, groups do
		local c = counts[group]
		if admitted then
			c[1], c[2], c[3], c[4] = c[1] + cost, c[2] + cost, c[3] + cost, c[4] + cost
		end
		local key = KEYS[1 + group]
		if restored[group] then
			call('HSET', key, 'g', generations[group], names[1], c[1], names[2], c[2], names[3], c[3], names[4], c[4])
		elseif admitted then
			call('HSET', key, names[1], c[1], names[2], c[2], names[3], c[3], names[4], c[4])
		end
		if fresh[group] and (admitted or restored[group]) then call('EXPIREAT', key, ARGV[5]) end
	end
end
if cost > 0 and admitted then
	for _, bucket in ipairs(buckets) do
		bucket[2], bucket[3] = bucket[4], bucket[5]
		local lives = math.ceil((bucket[2] - now) / 1000) + 1
		call('SET', bucket[1], string.format('%.0f %.0f', bucket[2], bucket[3]), 'PX', lives)
	end
end

local reply = {admitted and 0 or 1, now}
for group = 1, groups do
	reply[#reply + 1] = generations[group]
	for n = 1, #names do
		reply[#reply + 1] = counts[group][n]
	end
end
for _, bucket in ipairs(buckets) do
	reply[#reply + 1] = bucket[2] - now
	reply[#reply + 1] = bucket[3]
end
return reply
