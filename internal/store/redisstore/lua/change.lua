
-- Changes a document in one step with the rows of its account, and queues the
-- entries of the log that describe the change, with its time in milliseconds.
--
-- KEYS: the rows, the document, the queue; for a new document: what an account
-- before it used in each month, was credited, and had as overage, and the counts to
-- which these are added; what is deleted with the change.
-- ARGV: the version that was read, or nothing for a new document; until when
-- the change may be made, or 0; number of these months; expiries of their
-- counts; number of fields; fields and values; number of writes; writes;
-- entries.
-- Returns the result (0 another version, 1 changed, 2 a row is not as expected,
-- 3 too late), the time, and the first entries of the queue.

local queue = KEYS[5]
if (redis.call('HGET', KEYS[4], 'v') or '') ~= ARGV[1] then return {0, now} end
local deadline = tonumber(ARGV[2])
if deadline > 0 and now >= deadline then return {3, now} end
local months = tonumber(ARGV[3])
local fields = tonumber(ARGV[4 + months])
local first = 6 + months + 2 * fields
local last = first + 4 * ARGV[first - 1] - 1
if not expected(first, last) then return {2, now} end

if fields > 0 then
	redis.call('HSET', KEYS[4], unpack(ARGV, 5 + months, first - 2))
else -- the account is deleted
	for _, key in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
		if string.sub(key, 1, 1) ~= '~' then remove(key) end
	end
	expire()
end
write(first, last)
local moved = 3 * months
-- One call for all of them: an account with another id has none.
if moved > 0 and redis.call('EXISTS', unpack(KEYS, 6, 5 + moved)) > 0 then
	for n = 6, 5 + moved do
		local counts, to = redis.call('HGETALL', KEYS[n]), KEYS[n + moved]
		for m = 1, #counts, 2 do
			if string.find(counts[m], '^%d%d:[^*]') then redis.call('HINCRBY', to, counts[m], counts[m + 1]) end
		end
		redis.call('EXPIREAT', to, ARGV[4 + (n - 6) % months])
		redis.call('UNLINK', KEYS[n])
	end
end
for n = 6 + 2 * moved, #KEYS do redis.call('UNLINK', KEYS[n]) end
if last == #ARGV then return {1, now} end
local changed = string.format('%.0f ', math.floor(now / 1000))
for n = last + 1, #ARGV do redis.call('RPUSH', queue, changed .. ARGV[n]) end
return {1, now, unpack(redis.call('LRANGE', queue, 0, 99))}
