#!lua
-- Appends entries of a queue to the log, as store.EntryID.Next numbers them,
-- and removes old ones. It appends no entry twice: the id of an entry is not
-- before its time, so the log has it behind that time, or not at all.
--
-- KEYS: the log. ARGV: the least milliseconds to keep; entries: milliseconds,
-- number of the entry and text, with a space between them.

local entries, least = {}, math.huge
for n = 2, #ARGV do
	local at, number, from = string.match(ARGV[n], '^(%d+) (%w+) ()')
	entries[n - 1] = {tonumber(at), number, string.sub(ARGV[n], from)}
	least = math.min(least, tonumber(at))
end
local known, from = {}, string.format('%.0f', least)
repeat
	local page = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', 500)
	for _, found in ipairs(page) do
		known[found[2][4]], from = true, '(' .. found[1]
	end
until #page < 500

local ms, count = 0, 0
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if last then
	local dash = string.find(last[1], '-', 1, true)
	ms, count = tonumber(string.sub(last[1], 1, dash - 1)), tonumber(string.sub(last[1], dash + 1))
end
for _, entry in ipairs(entries) do
	if not known[entry[2]] then
		if entry[1] > ms then
			ms, count = entry[1], 0
		else
			count = count + 1
		end
		redis.call('XADD', KEYS[1], string.format('%.0f-%.0f', ms, count), 'e', entry[3], 'n', entry[2])
	end
end
redis.call('XTRIM', KEYS[1], 'MINID', ARGV[1])
return {}
