#!lua
-- Admits and counts one call, or looks at the room of its limits if the cost
-- is 0. It reads and checks first, and writes last.
--
-- KEYS: the account; a hash of counts for each group; buckets; hashes of other
-- months; the receipt if there is one; the overage if a limit is soft.
-- ARGV: handle, version, day, endpoint, except, numbers. The numbers are in
-- MessagePack, which is faster than text: until, cost, expiry of counts, number
-- of groups, number of buckets; for each group: 1 if it is of a total, amount,
-- generation and the highest counts seen; for each bucket: period, limit, time
-- that the cost takes and its part; for each quota: group, counter, limit; with a
-- counter above 10 also included or -1, number of ranges; for each range of days:
-- key, first, last, day that is left out. Of a receipt: its key, what is expected,
-- what to keep, and for how long in milliseconds.
-- Times are in microseconds, until 0 and empty handles and versions are none.
--
-- The counters are 1 and 2, those of the endpoint on the day and in the month, 3
-- and 4, those of all endpoints, and 5 and 6, the sums of these on the day and in
-- the ranges, or 10 more. Most calls have none of these, and they take no time for
-- them: each table, closure and number that a script makes is some of its time.
--
-- Returns the result (0 admitted, 1 refused, 2 changed, 3 late, 4 deleted, 5 another
-- receipt), the time; for each group: generation, counters; for each bucket: the time until it
-- is full, its part and since when it is not full; for each quota with ranges:
-- what is used.

local call, format = redis.call, string.format
local handle, version, today, endpoint, except, packed, receipt, old, new, left = unpack(ARGV)
local state, time = call('HMGET', KEYS[1], 'i', 'v'), call('TIME')
local now = time[1] * 1000000 + time[2]
if not state[1] or handle ~= '' and state[1] ~= handle then return {4, now} end
if version ~= '' and state[2] ~= version then return {2, now} end
local numbers = cmsgpack.unpack(packed)
local deadline, cost, expiry, groups, paces = unpack(numbers, 1, 5)
if deadline > 0 and now >= deadline then return {3, now} end
if receipt then
	local own, kept = state[1] .. ':', call('GET', KEYS[receipt + 0]) or ''
	if (string.sub(kept, 1, #own) == own and string.sub(kept, #own + 1) or '') ~= old then return {5, now} end
end

-- The first four are counted. The others are not covered by limits of all
-- endpoints.
local ofToday = {today .. ':' .. endpoint, endpoint, today .. ':*', '*'}
if except ~= '' then
	ofToday[5], ofToday[6] = today .. ':' .. except, except
end
local width = 1 + #ofToday

local at, counted = 6, {}
for group = 1, groups do
	local names, ofTotal = ofToday, numbers[at] == 1
	if ofTotal then
		names = {}
		for n, name in ipairs(ofToday) do
			names[n] = n % 2 == 1 and '31' .. string.sub(name, 3) or name
		end
	end
	local row = call('HMGET', KEYS[1 + group], 'g', unpack(names)) -- generation, counters
	local fresh, restored = not row[5] and not ofTotal, false
	for n = 1, width do
		row[n] = (row[n] or 0) + 0
	end
	-- A server that lost writes learns what this gate has seen.
	local generation = numbers[at + 2]
	if generation >= row[1] then
		restored = generation > row[1]
		row[1] = generation
		for n = 2, 5 do
			local seen = numbers[at + n + 1]
			if seen > row[n] then
				row[n], restored = seen, true
			end
		end
	end
	counted[group] = {row, names, numbers[at + 1], fresh, restored}
	at = at + 7
end

local admitted, buckets = true, {}
for key = 2 + groups, 1 + groups + paces do
	local period, limit = numbers[at], numbers[at + 1]
	local full, part, busy = now, 0, now
	local stored = call('GET', KEYS[key])
	if stored then
		full, part, busy = cmsgpack.unpack(stored)
		if part >= limit then -- of a greater limit before
			full, part = full + 1, 0
		end
		if full < now then
			full, part, busy = now, 0, now
		elseif full > now + period then -- the clock was set back
			full, part = now + period, 0
		end
	end
	local after, rest = full + numbers[at + 2], part + numbers[at + 3]
	if rest >= limit then
		after, rest = after + 1, rest - limit
	end
	if after - now > period or after - now == period and rest > 0 then admitted = false end
	buckets[#buckets + 1] = {KEYS[key], full, part, after, rest, busy}
	at = at + 4
end

local over, sums, last = 0, nil, #numbers
while at <= last do
	local group, counter, limit = counted[numbers[at]], numbers[at + 1], numbers[at + 2]
	local row, weight, used, included, ranges = group[1], group[3], 0, -1, 0
	at = at + 3
	if counter > 10 then
		counter, included, ranges = counter - 10, numbers[at], numbers[at + 1]
		at = at + 2
	end
	if counter > 4 then
		local all = counter == 6
		used = all and row[4] - (row[6] or 0) or row[2]
		for _ = 1, ranges do
			local key, first, last, without = unpack(numbers, at, at + 3)
			for n, name in ipairs({all and '*' or endpoint, all and except ~= '' and except or nil}) do
				local fields = {}
				for day = first, last do
					if day ~= without then fields[#fields + 1] = format('%02d:', day) .. name end
				end
				for _, more in ipairs(#fields > 0 and call('HMGET', KEYS[key], unpack(fields)) or fields) do
					used = used + (n == 1 and 1 or -1) * (more or 0)
				end
			end
			at = at + 4
		end
		sums = sums or {}
		sums[#sums + 1] = {used, weight}
	else
		used = row[1 + counter]
		if counter > 2 then used = used - (row[3 + counter] or 0) end
	end
	if used + weight > limit then admitted = false end
	if included >= 0 then over = math.max(over, math.min(weight, used + weight - included)) end
end

local reply, counts = {admitted and 0 or 1, now}, admitted and cost > 0
for group = 1, groups do
	local row, names, amount, fresh, restored = unpack(counted[group])
	if counts then
		row[2], row[3], row[4], row[5] = row[2] + amount, row[3] + amount, row[4] + amount, row[5] + amount
	end
	if counts or restored and cost > 0 then
		-- Redis would write numbers of Lua as floats, which takes longer.
		call('HSET', KEYS[1 + group], names[1], format('%d', row[2]), names[2], format('%d', row[3]),
			names[3], format('%d', row[4]), names[4], format('%d', row[5]))
		if restored then call('HSET', KEYS[1 + group], 'g', format('%d', row[1])) end
		if fresh then call('EXPIREAT', KEYS[1 + group], expiry) end
	end
	for n = 1, width do
		reply[#reply + 1] = row[n]
	end
end
if counts and receipt then call('SET', KEYS[receipt + 0], state[1] .. ':' .. new, 'PX', left) end
if counts and over > 0 then
	call('HINCRBY', KEYS[#KEYS], ofToday[1], format('%d', over))
	call('EXPIREAT', KEYS[#KEYS], expiry)
end
for _, bucket in ipairs(buckets) do
	local key, full, part, after, rest, busy = unpack(bucket)
	if counts then
		full, part = after, rest
		call('SET', key, cmsgpack.pack(full, part, busy), 'PX', math.ceil((full - now) / 1000) + 1)
	end
	reply[#reply + 1] = full - now
	reply[#reply + 1] = part
	reply[#reply + 1] = busy
end
for _, sum in ipairs(sums or {}) do
	reply[#reply + 1] = counts and sum[1] + sum[2] or sum[1]
end
return reply
