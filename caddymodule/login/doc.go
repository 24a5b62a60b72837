// Package login limits login attempts: it has the types that every limiter
// uses, Local, the limiter of one process, and Shared, the limiter of several
// gates that share a Redis server.
//
// Two rules apply to each attempt, and the longer wait decides.
//
// Per client, every attempt counts: at most PerClient in any Window, exactly.
// An attempt that succeeds moves to a second log of four times PerClient, so
// that many people behind one address can log in. While that log is full, or if
// the limits are Strict, it stays in the first. A client is an IPv4 address or
// an IPv6 /64.
//
// Per account, only failures count. The first Free failures cost nothing.
// Each further failure makes the next attempt wait: FirstWait at first, then
// twice as long each time, up to MaxWait. When no failure happens for
// Forget, all are forgotten. A client that logged in to the account within
// KnownFor has its own failure count on the same schedule: failures of
// unknown clients do not delay it, and its failures do not delay them. A
// success clears the failures of the client that logged in, and no others.
//
// An attempt counts as failed from its admission, before its password is
// checked. So parallel guesses count against each other. A success and an
// abandoned attempt delete that failure; a failure, or a process that ends
// before the outcome, leaves it. A refused attempt changes nothing.
//
// # Spellings
//
// Services differ in which e-mails they treat as one account: many
// databases ignore case, some ignore accents. Failures count together for
// all spellings that any of them may treat as equal. A success clears failures
// of its own canonical spelling only (trimmed, NFC, lower case). Otherwise an
// attacker could sign up with an accented twin of the victim's e-mail, and clear
// the guesses at the victim by logging in to the twin.
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
//     other accounts had Free failures each. One with free failures left is
//     evicted only after about Capacity/4 attempts at other accounts.
//   - A hash with a random seed spreads the rows over the shards, so no
//     attacker can choose e-mails that evict one victim.
//   - Failures never evict known clients: only a success adds these.
//
// The memory of Shared is that of the server. Each cell is bounded and expires
// when nothing in it counts. The number of cells is not bounded: a wrong
// password for a new e-mail adds a cell of about 200 bytes for Forget.
//
// # Several gates
//
// Shared has the same rules, and they hold over all gates together, which need
// the same Limits. A client has a cell, and all spellings of an e-mail have one.
// A gate reads both, decides, and replaces the client's cell and then the
// account's, each only if nothing has changed it since; otherwise it decides
// again. If the account then refuses the attempt, the client gets its place
// back. The time is that of the server. A change that the server would make
// after the gate's timeout is not made.
//
// While the server does not answer, or refuses changes, each gate decides
// alone with a Local in memory: a client has its allowance at each gate, no
// client is known, and earlier failures do not count. The outcome of an attempt
// goes to where it was reserved. When the answer to a change is lost, the change
// is not sent again, and the Local decides: the attempt may count at both.
//
// # Clocks
//
// When the wall clock steps back by up to a minute, the limiter's clock
// stops until the wall clock has caught up. After a larger step back it goes
// on from the latest instant. So no window opens early, and no client waits
// longer than the rule and one minute. Shared does the same for the server's
// clock and the latest instant in each cell: after a larger step back it moves
// the instants in the cell back.
package login
