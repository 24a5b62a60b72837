
-- Changes a document in one step with the rows of its account, and queues the
-- entries of the log that describe the change, with its time in milliseconds.
--
-- KEYS: the rows, the document, the queue, what is deleted with the change.
-- ARGV: the version that was read, or nothing for a new document; until when
-- the change may be made, or 0; number of fields; fields and values; number of
-- writes; writes; entries.
-- Returns the result (0 another version, 1 changed, 2 a row is not as expected,
-- 3 too late), the time, and the first entries of the queue.

local queue = KEYS[5]
if (redis.call('HGET', KEYS[4], 'v') or '') ~= ARGV[1] then return {0, now} end
local deadline = tonumber(ARGV[2])
if deadline > 0 and now >= deadline then return {3, now} end
local fields = tonumber(ARGV[3])
local first = 5 + 2 * fields
local last = first + 4 * ARGV[first - 1] - 1
if not expected(first, last) then return {2, now} end

if fields > 0 then redis.call('HSET', KEYS[4], unpack(ARGV, 4, 3 + 2 * fields)) end
write(first, last)
for n = 6, #KEYS do redis.call('UNLINK', KEYS[n]) end
if last == #ARGV then return {1, now} end
local changed = string.format('%.0f ', math.floor(now / 1000))
for n = last + 1, #ARGV do redis.call('RPUSH', queue, changed .. ARGV[n]) end
return {1, now, unpack(redis.call('LRANGE', queue, 0, 99))}
