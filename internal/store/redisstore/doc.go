// Package redisstore is a book.Engine on a Redis or Valkey server, for several
// gates: a single server, Sentinel or Cluster.
//
// # Layout
//
// All keys of an account have its id as their hash tag, so that they are in one
// slot, and one script reads and writes them. P is the prefix.
//
//	P:layout                 the number of the layout
//	P:accounts               sorted set: ids and handles of all accounts
//	P:{A}:a                  hash: the document of the account A: i handle, v
//	                         version, and its parts a account, k keys, l logins
//	P:{A}:s:i, n, x          the rows of an account: order (sorted set), values
//	                         (hash) and expiries (sorted set); they expire with
//	                         the last row. Those of credits stay when the account
//	                         is deleted
//	P:{A}:o                  list: entries of the log that are not in it yet
//	P:{A}:u:202611           hash: counts of a month, expires 400 days after it.
//	                         It stays when the account is deleted
//	P:{A}:u:202611:<key>     the same for a key with limits of its own, or for
//	                         ~credited, ~overage, ~calls and the like: see
//	                         store.Credited
//	P:{A}:u:999912           the same for store.TotalDay. It has no expiry, and
//	                         is deleted with the account
//	P:{A}:b:…                a bucket of a pace: when it is full and since when it
//	                         is not. It expires when it is full
//	P:{A}:r:<endpoint>       sorted set: calls that run, by expiry. Their gate renews
//	                         them. It expires with the last one
//	P:{A}:p:…                the receipt of a call: the handle and its value
//	P:t:<hash of the token>  account and key of a token, and when it was written
//	P:n:<id of a key>        the same for the id of a key
//	P:s:{<name>}:i, n, x     the rows of another space
//	P:c:{…}, P:e:{…}         login attempts of a client, of an e-mail
//	P:a:{…}                  calls of a client without an account
//	P:keys                   sorted set: ids of live keys by expiry, for Totals
//	P:pending                sorted set: accounts and changes that may have
//	                         entries in P:{A}:o, by time
//	P:audit                  stream: the log
//	P:check…, P:{A}:check    what Check and a second deletion write
//
// The counts of a month are four counters for each endpoint: "22:convert" for
// its calls on the 22nd, "convert" for those of the month, and "22:*" and "*"
// for all endpoints together. g is the generation: see Lost writes. Of ~credited
// and ~overage, only "22:convert" is read. A week, or a month from another day
// than the 1st, is the sum of its days: take.lua adds them up.
//
// A gate refuses data with another number of the layout. While a restore runs, and
// after one that failed, the layout is not a number.
//
// # A call
//
// A call is one script in one slot: take.lua checks the version of the grant,
// the time, and all limits, and writes only if all of them admit the call.
//
// A document has a random version. Each change writes a new one in the same
// script. A gate caches what an account and its keys grant only as one script
// read it. take.lua refuses a call with another version, and then the gate reads
// the document again, if it has another version. So a revoked key is refused
// at its next call on every gate, and no cache needs a time to live. The
// version is no counter: an account that is deleted and created again would
// repeat it, and so would a server that lost writes.
//
// # A change
//
// One script, change.lua, writes a document with its rows, if the version is that
// of the document that was read. Entries of the log are a part of it: see
// log.go. What other slots have is written before the document where the
// document needs it, and after it where only totals do. See change.steps. A
// change that creates a document moves what closed accounts with the id before
// it have used and were credited, and their overage.
//
// The entry of a token is written before its key. It says only which account to
// read. It changes only when the token is imported into another account after
// its key has ended: see change.claim.
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
// seen, and sends them with each call: take.lua continues from them. A call that
// is settled for less, or a credit, lowers counts and raises their generation.
// Counts of a smaller generation are ignored. If a failover loses a settlement for
// less, the higher counts stay. A store does not remember what is credited. If a
// failover loses a credit, and a store has seen the lower counts, these come back
// and the credited calls are in neither number. It remembers no overage and no
// earlier day either: what a failover loses of these is lost, and a week that is
// the sum of its days does not have it.
//
// # Servers
//
// A server is checked over a connection of its own before another connection to
// it is used, and all of them once a second: its version, its maxmemory-policy,
// the layout of its data, and that it is no replica. After a failover, the same
// address may lead to another server.
package redisstore
