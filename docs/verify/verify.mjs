// How a service in Node verifies Tollgate-Assertion, with the package jose.
// Copy it and call verify for each request.
//
// Run as a program, it reads assertions from standard input, one a line,
// and prints what each is:
//
//	node verify.mjs http://127.0.0.1:8081/tollgate/jwks.json api.example.com
import { createInterface } from 'node:readline'
import { createRemoteJWKSet, jwtVerify } from 'jose'

const [jwks, audience] = process.argv.slice(2)
if (!audience) {
	throw new Error('the audience is missing: jose would accept assertions for every host')
}

// Keeps the public keys, and fetches them again for an unknown one.
const keys = createRemoteJWKSet(new URL(jwks))

// verify returns the claims of a valid assertion: sub is the account, then
// plan, scope (the abilities) and client_id (the id of the key). The
// purpose is undefined for a call, and 'login' where your service checks
// passwords. A portal link, 'portal', is for the web pages only.
export async function verify(assertion, purpose) {
	const { payload } = await jwtVerify(assertion, keys, {
		algorithms: ['ES256'], // keeps "none" and HS256 out
		issuer: 'tollgate',
		audience, // the host that clients ask for, without a port
		clockTolerance: '1 minute',
		maxTokenAge: '5 minutes', // also refuses one from the future
		requiredClaims: ['exp'],
	})
	if (payload.purpose !== purpose || (payload.sub === undefined) !== (purpose === 'login')) {
		throw new Error('a claim is missing, or the assertion is for another purpose')
	}
	return payload
}

for await (const line of createInterface({ input: process.stdin })) {
	try {
		const call = await verify(line)
		console.log('call', call.sub, call.plan)
	} catch (error) {
		try {
			await verify(line, 'login')
			console.log('login')
		} catch {
			console.error(String(error))
			console.log('refused')
		}
	}
}
