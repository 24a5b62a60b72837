// Package login limits login attempts: it has the types that every limiter
// uses, and Local, the limiter of one process.
//
// Two rules apply to each attempt, and the longer wait decides.
//
// Per client, every attempt counts: at most PerClient in any Window. The
// count is exact, from a log of the admitted attempts. A client is an IPv4
// address or an IPv6 /64.
//
// Per account, only failures count. The first Free failures cost nothing.
// Each further failure makes the next attempt wait: FirstWait at first, then
// twice as long each time, up to MaxWait. When no failure happens for
// Forget, all are forgotten. A client that logged in to the account within
// KnownFor has its own failure count on the same schedule: failures of
// unknown clients do not delay it, and its failures do not delay them. A
// success clears the failures of the client that logged in, and no others.
//
// # Reservations
//
// An attempt counts as failed from its admission, before its password is
// checked. So parallel guesses count against each other. A success and an
// abandoned attempt delete that failure; a failure, or a process that ends
// before the outcome, leaves it. A refused attempt changes nothing in either
// rule.
//
// # Spellings
//
// Services differ in which e-mails they treat as one account: many
// databases ignore case, some ignore accents. Failures count together for
// all spellings that any of them may treat as equal, so that a new spelling
// is no new allowance. A success clears failures of its own canonical
// spelling only (trimmed, NFC, lower case). Otherwise an attacker could sign
// up with an accented twin of the victim's e-mail, and clear the guesses at
// the victim by logging in to the twin.
//
// # Memory
//
// Local has three tables (clients, failures, known clients) with at most
// Capacity rows each. Rows have no pointers, so the garbage collector does
// not scan them. New rows push out expired ones. A table over Capacity
// evicts the row that was unchanged for longest, and rows of accounts with
// free failures left before rows of accounts that must wait. The latter fill
// at most three quarters of the table. This guarantees:
//
//   - Only an admitted and saved attempt adds a row, so each eviction costs
//     the attacker an attempt of the allowance per client.
//   - An account that must wait is evicted only after about 3/4·Capacity
//     other accounts had Free failures each, and one of them after the
//     account's own last failure. An account with free failures left is
//     evicted only after about Capacity/4 attempts at other accounts.
//   - A hash with a random seed spreads the rows over the shards, so no
//     attacker can choose e-mails that evict one victim.
//   - Failures never evict known clients: only a success adds these.
//   - Evicting clients needs more than Capacity addresses; an attacker with
//     so many gains nothing by it.
//
// # Clocks
//
// When the wall clock steps back by up to a minute, the limiter's clock
// stops until the wall clock has caught up. After a larger step back it goes
// on from the latest instant. So no window opens early, and no client waits
// longer than the rule and one minute. A step forward cannot be told from
// time that passed.
package login
