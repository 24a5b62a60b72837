
-- Writes rows of a space: all or none.
--
-- KEYS: the rows; the document unless the space has a name.
-- ARGV: the handle of the account, or nothing; writes.
-- Returns 1, 0 if a row is not as expected, or 2 if there is no such account.

if KEYS[4] then
	local handle = redis.call('HGET', KEYS[4], 'i')
	if not handle or ARGV[1] ~= '' and handle ~= ARGV[1] then return {2} end
end
if not expected(2, #ARGV) then return {0} end
write(2, #ARGV)
return {1}
