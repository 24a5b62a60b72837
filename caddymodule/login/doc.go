// Package login decides which login attempts may be verified.
//
// Two rules hold at once, and the stricter one speaks.
//
// Per client every attempt counts: at most PerClient in any Window, by an
// exact log of the admitted attempts. A client is an IPv4 address or an
// IPv6 /64.
//
// Per account only failures count: Free of them cost nothing, then each
// further one makes the next attempt wait, FirstWait at first and twice as
// long each time up to MaxWait. The failures are forgotten together when
// none came for Forget. A client that logged in to the account within
// KnownFor is not held up by what strangers do: it has a failure count of
// its own towards the account, on the same schedule, and its failures do
// not count among the strangers'. A success clears the failures of the
// client that had it, and of nobody else.
//
// # Reservations
//
// An attempt is written down as a failure, at the instant it is admitted,
// before its password is looked at. Guesses sent side by side therefore
// meet the count that they themselves raise. A success or an abandoned
// attempt takes its entry back; a failure leaves it, and so does a process
// that dies in between. A refused attempt changes nothing, whichever rule
// refused it.
//
// # Spellings
//
// The services behind the gate differ in which e-mails they take for one
// account: many databases ignore case, some accents. Failures are counted
// for all spellings together that any of them may take for one, so that a
// spelling is no fresh allowance. What a success earns is tied to the
// canonical spelling (trimmed, NFC, lower case) that had it: otherwise
// whoever can sign up with an accented twin of a victim's address could
// clear guesses at the victim by logging in to the twin.
//
// # Memory
//
// Each of the three tables (clients, failures, known clients) holds at
// most Capacity rows, without pointers per row, so that the garbage
// collector has nothing to walk. Expired rows go as new ones come. Beyond
// Capacity the row that was longest untouched goes, and rows of accounts
// below their free allowance go before rows of accounts that are being held
// up, which may fill three quarters of the table. What that guarantees:
//
//   - Only an admitted and saved attempt adds a row, so each eviction costs
//     the attacker an attempt out of the per-client allowance.
//   - A held account is forgotten early only when about 3/4·Capacity other
//     accounts had Free failures each, and one of these after the account's
//     own last failure. Below the free allowance, it takes about Capacity/4
//     attempts at other accounts after the last failure.
//   - Rows are spread by a hash with a random seed, so nobody can choose
//     e-mails that crowd out one victim.
//   - Failures never evict known clients: only a success adds those.
//   - Evicting a client's log helps only somebody with more than Capacity
//     addresses, who has no use for it.
//
// # Clocks
//
// A wall clock that steps back by up to a minute stands still until it has
// caught up; one that steps back further goes on from the latest instant
// seen. So no window opens early, and nobody waits longer than the rule and
// that minute. A step forward cannot be told from time that passed.
package login
