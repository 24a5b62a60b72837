#!lua
-- Returns the receipt KEYS[2] of the account KEYS[1] in a list, or an empty one.

local own = (redis.call('HGET', KEYS[1], 'i') or '') .. ':'
local kept = redis.call('GET', KEYS[2])
if not kept or string.sub(kept, 1, #own) ~= own then return {} end
return {string.sub(kept, #own + 1)}
