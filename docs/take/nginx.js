// Lets a request pass if the gate admits the call, and otherwise answers as the gate.

// Without the gate, no call is admitted. Write { admitted: true } to admit all.
const unreachable = { admitted: false, status: 503, code: 'unavailable', message: 'Try again later.', retry_after: 5 };

async function take(r) {
	const sent = /^Bearer +(\S{1,4096})$/i.exec(r.headersIn.Authorization || '');
	const call = { token: sent ? sent[1] : 'none', endpoint: r.variables.endpoint, client_ip: r.remoteAddress };
	const reply = await r.subrequest('/_take', { method: 'POST', body: JSON.stringify(call) });
	if (reply.status < 500 && reply.status !== 200) {
		return r.return(500); // the secret or the endpoint is wrong
	}
	const answer = reply.status === 200 ? JSON.parse(reply.responseText) : unreachable;
	if (answer.admitted) {
		r.variables.account = answer.account || '';
		return r.internalRedirect('@service');
	}
	const headers = { 'Content-Type': 'application/json', 'Retry-After': answer.retry_after, 'WWW-Authenticate': answer.status === 401 ? 'Bearer realm="api"' : undefined };
	Object.keys(headers).forEach((name) => { r.headersOut[name] = headers[name]; });
	r.return(answer.status, JSON.stringify({ message: answer.message, code: answer.code }));
}

export default { take };
