// Lets a request pass if the gate allows it, and otherwise answers as the gate.

// introspect asks if the token is valid. The answer is 200 also if it is not.
async function introspect(r) {
	const sent = /^Bearer +(\S+)$/i.exec(r.headersIn.Authorization || '');
	const body = `client_ip=${r.remoteAddress}&token=${encodeURIComponent(sent ? sent[1] : '')}`;
	const answer = await r.subrequest('/_introspect', { method: 'POST', body });
	if (answer.status !== 200) {
		return r.return(503);
	}
	const token = JSON.parse(answer.responseText);
	if (token.active !== true) {
		r.headersOut['WWW-Authenticate'] = 'Bearer realm="api"';
		return r.return(401);
	}
	pass(r, token.sub);
}

// count asks the gate to count the call.
async function count(r) {
	const answer = await r.subrequest('/_count');
	['Content-Type', 'RateLimit', 'RateLimit-Policy', 'Retry-After', 'WWW-Authenticate', 'X-Should-Retry'].forEach((name) => {
		r.headersOut[name] = answer.headersOut[name];
	});
	if (answer.status !== 204) {
		return r.return(answer.status, answer.responseText);
	}
	pass(r, answer.headersOut['Account']);
}

function pass(r, account) {
	r.variables.account = account;
	r.internalRedirect('@service');
}

export default { introspect, count };
