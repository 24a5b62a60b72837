#!lua
-- Appends entries of queues to the log, and removes old ones. It appends no
-- entry twice: the id of an entry is not before the time of its change, so the
-- log has it behind that time, or not at all. A script searches one page of the
-- log, because it blocks all calls while it runs. What was searched does not
-- change, so the next one continues behind it.
--
-- KEYS: the log. ARGV: the least milliseconds to keep; the id behind which the
-- search continues, or nothing; entries: milliseconds of the change, those of
-- the entry, number of the entry and text, with a space between them.
-- Returns nothing if the log has all entries. Otherwise it returns where to
-- continue, and the entries that were not found.

local entries, least = {}, math.huge
for n = 3, #ARGV do
	local changed, at, number, from = string.match(ARGV[n], '^(%d+) (%d+) (%w+) ()')
	entries[n - 2] = {math.max(changed, at), number, string.sub(ARGV[n], from), ARGV[n]}
	least = math.min(least, tonumber(changed))
end
local from = ARGV[2] ~= '' and '(' .. ARGV[2] or string.format('%.0f', least)
local known, page = {}, redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', 500)
for _, found in ipairs(page) do known[found[2][4]] = true end
if #page == 500 then
	local left = {page[500][1]}
	for _, entry in ipairs(entries) do
		if not known[entry[2]] then left[#left + 1] = entry[4] end
	end
	return left
end

local ms, count = 0, 0
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if last then
	local dash = string.find(last[1], '-', 1, true)
	ms, count = tonumber(string.sub(last[1], 1, dash - 1)), tonumber(string.sub(last[1], dash + 1))
end
for _, entry in ipairs(entries) do
	if not known[entry[2]] then
		if entry[1] > ms then -- as store.EntryID.Next
			ms, count = entry[1], 0
		else
			count = count + 1
		end
		redis.call('XADD', KEYS[1], string.format('%.0f-%.0f', ms, count), 'e', entry[3], 'n', entry[2])
	end
end
redis.call('XTRIM', KEYS[1], 'MINID', ARGV[1])
return {}
