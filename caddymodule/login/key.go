package login

import (
	"crypto/sha256"
	"net/netip"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Client is whom the per-client rule counts: an IPv4 address or an IPv6
// /64. The zero Client is everyone without an IP address.
type Client [9]byte

// ClientKey makes the Client of an IP address without a port. IPv6 is cut
// to /64, which is what one customer is given and can move about in
// freely (RFC 6177); IPv4-mapped IPv6 counts as the IPv4 address it is;
// a zone is dropped. Whatever is no IP address, such as the empty string
// for a Unix socket, falls into one bucket that all such clients share.
func ClientKey(address string) Client {
	parsed, err := netip.ParseAddr(address)
	if err != nil {
		return Client{}
	}
	var key Client
	parsed = parsed.Unmap()
	if parsed.Is4() {
		key[0] = 4
		four := parsed.As4()
		copy(key[1:], four[:])
		return key
	}
	key[0] = 6
	sixteen := parsed.As16()
	copy(key[1:], sixteen[:8])
	return key
}

// Account is whom an attempt is aimed at. It holds hashes only, so that no
// e-mail is kept in memory or on disk; they are pseudonyms, since whoever
// guesses the e-mail can recompute them. The zero Account is none: such an
// attempt meets the per-client rule alone.
type Account struct {
	// bucket is shared by all spellings that some service may take for
	// one account. Failures are counted by it.
	bucket bucket
	// name is the canonical spelling. Successes are tied to it.
	name [16]byte
}

type bucket [16]byte

// AccountKey makes the Account of an e-mail as the client typed it. It is
// the zero Account if the e-mail is empty or blank. Spellings that differ
// in surrounding space, case or Unicode normal form are one Account; the
// package comment says what else counts together.
func AccountKey(email string) Account {
	email = strings.TrimSpace(email)
	if email == "" {
		return Account{}
	}
	var key Account
	loose := sha256.Sum256([]byte(skeleton(email)))
	exact := sha256.Sum256([]byte(canonical(email)))
	copy(key.bucket[:], loose[:])
	copy(key.name[:], exact[:])
	return key
}

// canonical lowers only what upper case would restore. A dotted capital I
// stays what it is, since not every service takes it for an i. Lowering can
// undo the normal form, so that comes twice.
func canonical(email string) string {
	lower := func(r rune) rune {
		if l := unicode.ToLower(r); unicode.ToUpper(l) == r {
			return l
		}
		return r
	}
	return strings.TrimSpace(norm.NFC.String(strings.Map(lower, norm.NFC.String(email))))
}

// skeleton is coarser than any comparison of e-mails we know of: it ignores
// case in both directions (so that dotless i and long s are i and s),
// compatibility forms, combining marks, invisible characters and space.
func skeleton(email string) string {
	fold := func(r rune) rune {
		// Case comes first: the Greek iota subscript is a mark and the
		// lower case of a letter.
		r = unicode.ToLower(unicode.ToUpper(r))
		if unicode.In(r, unicode.Mn, unicode.Cf, unicode.White_Space) {
			return -1
		}
		return r
	}
	folded := strings.Map(fold, norm.NFKD.String(email))
	return strings.Map(fold, norm.NFKD.String(folded))
}

// tag names a client together with the canonical spelling it used. With 96
// bits nobody finds an e-mail whose tag is that of a victim's.
type tag [12]byte

func tagOf(client Client, account Account) tag {
	var text [len(client) + len(account.name)]byte
	copy(text[:], client[:])
	copy(text[len(client):], account.name[:])
	sum := sha256.Sum256(text[:])
	return tag(sum[:len(tag{})])
}
