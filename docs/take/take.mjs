// How a worker in Node counts calls at the gate:
//
//	const answer = await take({ account: 'acc_1', endpoint: 'report', id: 'job-17' })
//	if (!answer.admitted) … // code, message, and mostly retry_after
//
// After an error, repeat it with the same id: the gate counts an id once.
const { TOLLGATE_CONTROL, TOLLGATE_TAKE_SECRET } = process.env
// Without the gate, no call is admitted. Write { admitted: true } to admit all.
const unreachable = { admitted: false, status: 503, code: 'unavailable', message: 'Try again later.', retry_after: 5 }

async function post(path, body) {
	const response = await fetch(`http://${TOLLGATE_CONTROL}/tollgate/${path}`, {
		method: 'POST', body: JSON.stringify(body), signal: AbortSignal.timeout(5000),
		headers: { 'Authorization': `Bearer ${TOLLGATE_TAKE_SECRET}`, 'Content-Type': 'application/json' },
	})
	if (response.ok) return response.json()
	throw Object.assign(new Error(await response.text()), { status: response.status })
}

export async function take(call) {
	try {
		return await post('take', call)
	} catch (error) {
		if (error.status < 500) throw error // the secret or the call is wrong
		return unreachable
	}
}

// settle sets what a call costs, on an endpoint with "cost answer".
export const settle = (call, cost) => post(`calls/${call}/settle`, { cost })
