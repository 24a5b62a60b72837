#!lua
-- Adds calls that run to lists, if each list has then at most its most. Without
-- calls, it only counts. A call that is in a list already is renewed.
--
-- KEYS: sorted sets of calls by expiry.
-- ARGV: how long a call is kept in milliseconds, the most of each list, calls.
-- Returns 1 if the calls are in the lists, and how many calls each list has.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local first = #KEYS + 2
local reply = {#ARGV < first and 0 or 1}
for i, key in ipairs(KEYS) do
	reply[i + 1] = redis.call('ZCOUNT', key, '(' .. now, '+inf')
	if reply[i + 1] + #ARGV - first + 1 > tonumber(ARGV[i + 1]) then reply[1] = 0 end
end
if reply[1] == 0 then return reply end
for i, key in ipairs(KEYS) do
	redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
	for n = first, #ARGV do redis.call('ZADD', key, now + ARGV[1], ARGV[n]) end
	redis.call('PEXPIREAT', key, now + ARGV[1])
	reply[i + 1] = redis.call('ZCARD', key)
end
return reply
