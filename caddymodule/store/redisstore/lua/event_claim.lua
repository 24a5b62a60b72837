#!lua
-- Claims events that are due, in the order in which they happened.
--
-- KEYS: bodies, when they are due, when they happened, attempts.
-- ARGV: now, and when the events are due again, in microseconds; how many.
-- Returns id, body and attempts of each.

local now, most = tonumber(ARGV[1]), tonumber(ARGV[3])
most = math.min(most, redis.call('ZCOUNT', KEYS[2], '-inf', ARGV[1]))
local reply, first = {}, 0
while most > 0 do
	local ids = redis.call('ZRANGE', KEYS[3], first, first + 99)
	if #ids == 0 then return reply end
	for n, due in ipairs(redis.call('ZMSCORE', KEYS[2], unpack(ids))) do
		if due and tonumber(due) <= now and most > 0 then
			most = most - 1
			redis.call('ZADD', KEYS[2], ARGV[2], ids[n])
			reply[#reply + 1] = ids[n]
			reply[#reply + 1] = redis.call('HGET', KEYS[1], ids[n])
			reply[#reply + 1] = redis.call('HINCRBY', KEYS[4], ids[n], 1)
		end
	end
	first = first + #ids
end
return reply
