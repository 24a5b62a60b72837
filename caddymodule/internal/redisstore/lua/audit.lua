#!lua
-- Appends entries to the audit log, as store.EntryID.Next numbers them, and
-- removes old ones.
--
-- KEYS: the log. ARGV: the least milliseconds to keep; milliseconds and text of
-- each entry. Returns milliseconds and number of each entry.

local ms, number = 0, 0
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if last then
	local dash = string.find(last[1], '-', 1, true)
	ms, number = tonumber(string.sub(last[1], 1, dash - 1)), tonumber(string.sub(last[1], dash + 1))
end
local reply = {}
for n = 2, #ARGV, 2 do
	local at = tonumber(ARGV[n])
	if at > ms then
		ms, number = at, 0
	else
		number = number + 1
	end
	redis.call('XADD', KEYS[1], string.format('%.0f-%.0f', ms, number), 'e', ARGV[n + 1])
	reply[n - 1], reply[n] = ms, number
end
redis.call('XTRIM', KEYS[1], 'MINID', ARGV[1])
return reply
