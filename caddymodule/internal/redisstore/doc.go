// Package redisstore is a store.Store on a Redis or Valkey server, for several
// gates: a single server, Sentinel or Cluster.
//
// # Layout
//
// All keys of an account have its id as their hash tag, so that they are in one
// slot, and one script reads and writes them. P is the prefix.
//
//	P:layout                 the number of the layout
//	P:accounts               sorted set: ids and handles of all accounts
//	P:{A}:a                  hash: the account A: i handle, v version, p plan,
//	                         d disabled, c created, o overrides, l label
//	P:{A}:k                  hash: keys (k:<id>), and their last uses and calls
//	                         by day (u:<id>)
//	P:t:<hash of the token>  account and key of a token
//	P:{A}:u:202611           hash: counts of a month, expires 400 days after it
//	P:{A}:u:202611:<key>     the same for a key with limits of its own
//	P:{A}:b:…                a bucket of a pace, expires when it is full
//	P:{A}:r                  list: recent calls, expires 30 days after the last
//	P:c:{…}, P:e:{…}         login attempts of a client, of an e-mail
//	P:keys                   sorted set: ids of live keys by expiry, for Totals
//	P:refused:{20261122}:i   sorted set: refused calls of a day, in order
//	P:refused:{20261122}:n   hash: their numbers; both expire after 400 days
//	P:audit                  stream: the audit log
//	P:events:{events}:k      sorted set: known ids of events, by the time
//	                         until which they are known; expires with the last
//	P:events:{events}:b      hash: events that wait; when they are due (sorted
//	                         set d) and happened (t), and attempts (hash n)
//	P:check…, P:{A}:check    what Check and a second deletion write
//
// The counts of a month are four counters for each endpoint: "22:convert" for
// its calls on the 22nd, "convert" for those of the month, and "22:*" and "*"
// for all endpoints together. g is the generation: see Lost writes.
//
// A gate refuses data with another number of the layout. While a restore runs, and
// after one that failed, the layout is not a number.
//
// # A call
//
// A call is one script in one slot: take.lua checks the version of the grant,
// the time, and all limits, and writes only if all of them admit the call.
//
// The account's hash has a random version. Each change of the account or of its
// keys writes a new one in the same script. A gate caches a grant only as it was
// read: account and key in one script. take.lua refuses a call with another
// version, and then the gate reads the grant again. So a revoked key is refused
// at its next call on every gate, and no cache needs a time to live. The
// version is no counter: an account that is deleted and created again would
// repeat it, and so would a server that lost writes.
//
// A token's key is written before the key of the account, and deleted after it.
// It says only which account and key to read. It changes only when the token is
// imported into another account after its key has ended: see Store.enter.
//
// # Lost replies
//
// An error reply of the server means that the script has not counted. Without a
// reply, the call may be counted: the store returns store.ErrUnknown and never
// sends the call again. Each call carries the server time until which it may
// count. What the server runs later is not counted.
//
// # Lost writes
//
// A failover can lose writes. The store keeps the highest counts that it has
// seen, and sends them with each call: take.lua continues from them. A refund or
// a reset lowers counts, and raises their generation. Counts of a smaller
// generation are ignored.
//
// # Events
//
// One script adds an event, and one claims those that are due, so that each is
// claimed by one gate. The clocks of the gates tell what is due.
//
// The queue never expires: an event waits until a gate removes it, or until
// newer events exceed store.MaxQueued. A time to live would drop events while
// their receiver does not answer. The audit log does not expire either: each write
// removes its old entries.
//
// # Servers
//
// A server is checked over a connection of its own before another connection to
// it is used, and all of them once a second: its version, its maxmemory-policy,
// the layout of its data, and that it is no replica. After a failover, the same
// address may lead to another server.
package redisstore
