// Package login limits login attempts. Limiter has the rules, over Cells: those
// of a process (Memory) or those of a Redis server that several gates share.
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
// A client has a cell, and all spellings of an e-mail have one. Memory bounds
// them in bytes, in four classes that share nothing: clients (400 MiB), accounts
// with free failures left (150 MiB), accounts that must wait (450 MiB), and
// accounts with known clients (3.2 GiB). A process that may use less than 8 GiB has
// the same part of this: with 512 MiB, a 16th. A class that is full evicts the
// cell that was unchanged for longest. This guarantees, with the default Limits
// and 8 GiB:
//
//   - Only an admitted and saved attempt adds a cell or makes it larger, so each
//     eviction costs the attacker an attempt of the allowance per client.
//   - A client is evicted only after about a million attempts of others.
//   - An account that must wait is evicted only after about a million other
//     accounts had Free failures each. One with free failures left is evicted
//     only after about 700,000 attempts at other accounts.
//   - Failures never evict known clients: only a success adds these, and the
//     cell of an account with known clients counts as if it had all failures
//     that its Limits allow. About three million such accounts fit.
//
// A Memory can have a Journal. Then an attempt and its outcome are saved before
// they are confirmed, with one write for both cells, and for all attempts that
// come meanwhile. What was not saved evicts nothing.
//
// The memory of a Redis server is not bounded. Each cell is, and expires when
// nothing in it counts. A wrong password for a new e-mail adds a cell of about
// 200 bytes for Forget.
//
// # Several gates
//
// The rules hold over all gates with the same cells together, which need the
// same Limits. A limiter reads both cells, decides, and replaces the client's
// cell and then the account's, each only if nothing has changed it since;
// otherwise it decides again. If the account then refuses the attempt, the
// client gets its place back. The time is that of the server. A change that the
// server would make after the gate's timeout is not made.
//
// While the server does not answer, or refuses changes, each gate decides
// alone with a Memory: a client has its allowance at each gate, no client is
// known, and earlier failures do not count. The outcome of an attempt goes to
// where it was reserved. When the answer to a change is lost, the change is not
// sent again, and the Memory decides: the attempt may count at both.
//
// # Clocks
//
// When the clock steps back by up to a minute, it counts as stopped at a cell
// until it has caught up with the latest instant there. After a larger step
// back, the instants in the cell move back with it. So no window opens early,
// and no client waits longer than the rule and one minute.
package login
