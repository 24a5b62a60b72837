-- Decides about a call and counts it: with one script in Redis, exact for all
-- workers. Redis has
--
--   token:<SHA-256>    a hash: account, key, abilities, and expires (seconds)
--   account:<account>  a hash: plan, disabled, and a limit a day by endpoint
--   count:<account>:<endpoint>:<day>
local ffi = require "ffi"
local redis = require "nginx.redis"

-- nginx is linked with libcrypto, which has these for all its versions.
ffi.cdef [[
typedef struct { unsigned int words[32]; } gate_sha256;
int SHA256_Init(gate_sha256 *c);
int SHA256_Update(gate_sha256 *c, const void *data, size_t len);
int SHA256_Final(unsigned char *md, gate_sha256 *c);
]]

-- The script reads first, and writes what it admits. It replies with one
-- string, which the client of Redis reads in one step: the status, and then
-- of 200: account, plan, key, limit, remaining, abilities; of 429: limit.
local script = [[
local token = redis.call('HMGET', KEYS[1], 'account', 'key', 'abilities', 'expires')
local endpoint, now = ARGV[1], tonumber(ARGV[2])
if not token[1] or token[4] and now >= tonumber(token[4]) then return '401' end
local account = redis.call('HMGET', 'account:' .. token[1], 'plan', 'disabled', endpoint)
if not account[1] or account[2] then return '401' end
if not account[3] then return '403 not_entitled' end
if not string.find(' ' .. token[3] .. ' ', ' ' .. endpoint .. ' ', 1, true) then return '403 insufficient_scope' end
local count = 'count:' .. token[1] .. ':' .. endpoint .. ':' .. ARGV[3]
local limit, used = tonumber(account[3]), tonumber(redis.call('GET', count) or 0)
if used >= limit then return '429 ' .. account[3] end
used = redis.call('INCR', count)
if used == 1 then redis.call('EXPIRE', count, 2 * 86400) end
return string.format('200 %s %s %s %s %.0f %s', token[1], account[1], token[2], account[3], limit - used, token[3])
]]
local sha = ngx.sha1_bin(script):gsub(".", function(c) return string.format("%02x", c:byte()) end)

local ngx, var, header = ngx, ngx.var, ngx.header
local match, sub, lower, format = string.match, string.sub, string.lower, string.format
local day_length = 86400

local gate = {}
local socket

-- open names the server. A worker connects when it needs to.
function gate.open(address)
	socket = address
end

local context, digest = ffi.new("gate_sha256"), ffi.new("unsigned char[32]")

local function sha256(text)
	ffi.C.SHA256_Init(context)
	ffi.C.SHA256_Update(context, text, #text)
	ffi.C.SHA256_Final(digest, context)
	return ffi.string(digest, 32)
end

local function refuse(status, code, message, members)
	header["Content-Type"] = "application/json; charset=utf-8"
	header["Cache-Control"] = "no-store"
	header["X-Content-Type-Options"] = "nosniff"
	local body = '{"message":"' .. message .. '","code":"' .. code .. '"' .. (members or "") .. "}"
	header["Content-Length"] = #body
	ngx.status = status
	ngx.print(body)
	return ngx.exit(status)
end

local function unavailable(err)
	ngx.log(ngx.ERR, "redis: ", err)
	header["Retry-After"] = "5"
	return refuse(503, "unavailable", "The service cannot check the request right now. Try again in a few seconds.")
end

local function unauthorized(code, message, parameters)
	header["WWW-Authenticate"] = 'Bearer realm="api"' .. (parameters or "")
	return refuse(401, code, message)
end

-- decide runs the script. Connections stay open for the next call of the
-- worker.
local function decide(hash, endpoint, now, day)
	local r = redis:new()
	r:set_timeout(1000)
	local ok, err = r:connect(socket)
	if not ok then
		return nil, err
	end
	local key = "token:" .. hash
	local reply, failed = r:evalsha(sha, 1, key, endpoint, now, day)
	if not reply and failed and sub(failed, 1, 8) == "NOSCRIPT" then
		reply, failed = r:eval(script, 1, key, endpoint, now, day)
	end
	if not reply then
		r:close()
		return nil, failed
	end
	r:set_keepalive(60000, 256)
	return reply
end

local function limit_fields(endpoint, limit, remaining, wait)
	header["RateLimit-Policy"] = '"' .. endpoint .. '";q=' .. limit .. ";w=" .. day_length
	header["RateLimit"] = '"' .. endpoint .. '";r=' .. remaining .. ";t=" .. wait
end

local function exhausted(endpoint, limit, wait, tomorrow)
	local resets = os.date("!%Y-%m-%dT%H:%M:%SZ", tomorrow)
	header["Retry-After"] = wait
	header["X-Should-Retry"] = "false"
	limit_fields(endpoint, limit, "0", wait)
	local calls = limit == "1" and " call" or " calls"
	return refuse(429, "quota_exceeded",
		"Daily API limit exceeded: " .. limit .. calls .. " a day to " .. endpoint .. ". It resets at " .. resets .. ".",
		format(',"endpoint":"%s","period":"day","limit":%s,"of":"account","resets_at":"%s"', endpoint, limit, resets))
end

-- admit lets a call pass to the upstream, or answers it.
function gate.admit(endpoint)
	local method = var.request_method
	if method ~= "GET" and method ~= "HEAD" then
		header["Allow"] = "GET, HEAD"
		return refuse(405, "method_not_allowed", "This method is not allowed here.")
	end
	local authorization = var.http_authorization
	local scheme, token = match(authorization or "", "^(%S+) +(%S+) *$")
	if not token or lower(scheme) ~= "bearer" then
		return unauthorized("unauthenticated", "Send an API key as a Bearer token in the Authorization header.")
	end
	local now = ngx.time()
	local day = (now - now % day_length) / day_length
	local tomorrow = (day + 1) * day_length
	local reply, err = decide(sha256(token), endpoint, now, day)
	if not reply then
		return unavailable(err)
	end
	local status, rest = sub(reply, 1, 3), sub(reply, 5)
	if status == "200" then
		local account, plan, key, limit, remaining, abilities = match(rest, "^(%S+) (%S+) (%S+) (%S+) (%S+) (.*)$")
		var.account, var.plan, var.key, var.abilities = account, plan, key, abilities
		return limit_fields(endpoint, limit, remaining, tomorrow - now)
	elseif status == "429" then
		return exhausted(endpoint, rest, tomorrow - now, tomorrow)
	elseif status == "401" then
		return unauthorized("invalid_token", "The token is not valid. It may be mistyped, expired or revoked.", ', error="invalid_token"')
	elseif rest == "not_entitled" then
		return refuse(403, rest, "The account's plan does not include this endpoint.")
	end
	header["WWW-Authenticate"] = 'Bearer realm="api", error="insufficient_scope", scope="' .. endpoint .. '"'
	return refuse(403, rest, "The token does not have the ability " .. endpoint .. ".")
end

return gate
