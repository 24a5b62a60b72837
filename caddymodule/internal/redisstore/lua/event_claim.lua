#!lua
-- Claims events that are due: of those that are due longest, four times as many
-- as it claims, those that happened first. More would block all calls while the
-- script runs: 10,000 events can wait.
--
-- KEYS: bodies, when they are due, when they happened, attempts.
-- ARGV: now, and when the events are due again, in microseconds; how many.
-- Returns id, body and attempts of each.

local limit = tonumber(ARGV[3])
local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[1], 'LIMIT', 0, math.min(4 * limit, 1000))
if #ids == 0 then return {} end
local happened = {}
for n, at in ipairs(redis.call('ZMSCORE', KEYS[3], unpack(ids))) do happened[ids[n]] = tonumber(at or 0) end
table.sort(ids, function(a, b)
	if happened[a] == happened[b] then return a < b end
	return happened[a] < happened[b]
end)
local reply = {}
for n = 1, math.min(#ids, limit) do
	redis.call('ZADD', KEYS[2], ARGV[2], ids[n])
	reply[#reply + 1] = ids[n]
	reply[#reply + 1] = redis.call('HGET', KEYS[1], ids[n])
	reply[#reply + 1] = redis.call('HINCRBY', KEYS[4], ids[n], 1)
end
return reply
