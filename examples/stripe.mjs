// Sets the plans of accounts by Stripe's webhooks (npm install stripe). Let Stripe
// send customer.subscription.created, .updated and .deleted to your site:
//
//	request_body /stripe {
//		max_size 1MB
//	}
//	reverse_proxy /stripe 127.0.0.1:4242
//
// Stripe repeats events, and does not keep their order. So an event only names the
// account: its plan follows from the subscriptions that Stripe has now.
import { createServer } from 'node:http'
import Stripe from 'stripe'

// The plans by lookup key or id of the price, the best plan first.
const plans = { business_monthly: 'business', price_1MowQULkdIwHu7ixraBm864M: 'starter' }
const paid = ['active', 'trialing', 'past_due'] // past_due: Stripe still tries to collect

const [apiKey, webhookSecret, gate, secret] = ['STRIPE_API_KEY', 'STRIPE_WEBHOOK_SECRET', 'TOLLGATE_CONTROL', 'TOLLGATE_SECRET'].map((name) => {
	if (!process.env[name]) throw new Error(`${name} is not set`)
	return process.env[name]
})
const stripe = new Stripe(apiKey, { timeout: 5000 })

async function setPlan({ customer, metadata: { tollgate_account: account } }) {
	const { data } = await stripe.subscriptions.list({ customer, limit: 100 })
	const prices = data.filter((s) => s.metadata.tollgate_account === account && paid.includes(s.status))
		.flatMap((s) => s.items.data.flatMap(({ price }) => [price.lookup_key, price.id]))
	const price = Object.keys(plans).find((name) => prices.includes(name))
	if (!price && prices.length > 0) throw new Error(`no plan has one of the prices ${prices}`)
	const ask = (method, body) => fetch(`http://${gate}/tollgate/accounts/${encodeURIComponent(account)}`, {
		method, body, signal: AbortSignal.timeout(5000),
		headers: { 'Authorization': `Bearer ${secret}`, 'Content-Type': 'application/json', 'Tollgate-Reason': `Stripe ${customer}` },
	})
	if (!price && (await ask('GET')).status === 404) return // closed: do not create it again
	const answer = await ask('PUT', JSON.stringify({ plan: plans[price] ?? 'free' }))
	if (!answer.ok) throw new Error(`the gate answered ${answer.status} ${await answer.text()}`)
}

let last = Promise.resolve() // one event after another: an older plan is never set last
createServer(async (request, response) => {
	let status = 400
	try {
		const body = Buffer.concat(await request.toArray())
		const { type, data: { object } } = stripe.webhooks.constructEvent(body, request.headers['stripe-signature'], webhookSecret)
		status = 503 // Stripe sends the event again
		if (type.startsWith('customer.subscription.') && object.metadata.tollgate_account) {
			await (last = last.catch(() => {}).then(() => setPlan(object)))
		}
		response.writeHead(204).end()
	} catch (error) {
		console.error(error.message)
		response.writeHead(status).end(error.message) // Stripe's dashboard shows it
	}
}).listen(process.env.PORT ?? 4242, '127.0.0.1')
