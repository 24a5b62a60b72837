package login

import (
	"crypto/sha256"
	"net/netip"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Client is an IPv4 address or an IPv6 /64. All clients without an IP
// address share the zero Client.
type Client [9]byte

// ClientOf returns the Client of an IP address without a port. IPv6 is cut
// to /64: a customer gets that much and can use any address in it (RFC
// 6177). IPv4-mapped IPv6 is the IPv4 address. A zone is ignored. Any other
// text, such as the empty string for a Unix socket, is the zero Client.
func ClientOf(address string) Client {
	parsed, err := netip.ParseAddr(address)
	if err != nil {
		return Client{}
	}
	var client Client
	parsed = parsed.Unmap()
	if parsed.Is4() {
		client[0] = 4
		four := parsed.As4()
		copy(client[1:], four[:])
		return client
	}
	client[0] = 6
	sixteen := parsed.As16()
	copy(client[1:], sixteen[:8])
	return client
}

// Account is the account that an attempt is for. It holds hashes, so that
// no e-mail is kept in memory or on disk. The hashes are pseudonyms: a
// reader who guesses the e-mail can compute them. The zero Account is no
// account: only the rule per client applies.
type Account struct {
	// group is the same for all spellings that some service may treat as
	// one account. Failures count per group.
	group hash
	// spelling is the canonical spelling. A success belongs to it.
	spelling hash
}

type hash [16]byte

// AccountOf returns the Account of an e-mail as the client typed it. An
// empty or blank e-mail is the zero Account. Spellings that differ in
// surrounding space, case or Unicode normal form are one Account; the
// package comment says what else counts together.
func AccountOf(email string) Account {
	email = strings.TrimSpace(email)
	if email == "" {
		return Account{}
	}
	group := sha256.Sum256([]byte(skeleton(email)))
	spelling := sha256.Sum256([]byte(canonical(email)))
	return Account{group: hash(group[:16]), spelling: hash(spelling[:16])}
}

// canonical lowers only letters that upper case restores: it keeps a dotted
// capital I, because not every service treats it as an i. Lowering can undo
// the normal form, so the text is normalized twice.
func canonical(email string) string {
	lower := func(r rune) rune {
		if l := unicode.ToLower(r); unicode.ToUpper(l) == r {
			return l
		}
		return r
	}
	return strings.TrimSpace(norm.NFC.String(strings.Map(lower, norm.NFC.String(email))))
}

// skeleton is coarser than any known comparison of e-mails. It ignores case
// in both directions (so dotless i and long s are i and s), compatibility
// forms, combining marks, invisible characters and space.
func skeleton(email string) string {
	fold := func(r rune) rune {
		// Fold case first: the Greek iota subscript is a mark and also the
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

// fingerprint identifies a client together with the canonical spelling that
// it used. With 96 bits, no attacker finds an e-mail with the fingerprint of
// a victim's.
type fingerprint [12]byte

func fingerprintOf(client Client, account Account) fingerprint {
	var text [len(client) + len(account.spelling)]byte
	copy(text[:], client[:])
	copy(text[len(client):], account.spelling[:])
	sum := sha256.Sum256(text[:])
	return fingerprint(sum[:len(fingerprint{})])
}
