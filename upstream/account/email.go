package account

import (
	"fmt"
	"net/mail"
	"strings"
)

// Bounds of an e-mail address in bytes: a forward path of RFC 5321 holds
// 256 with its angle brackets, a local part 64, and a label of a domain
// 63 (RFC 1035).
const (
	maxEmail     = 254
	maxLocalPart = 64
	maxLabel     = 63
)

// Email is an e-mail address in its canonical form: trimmed and in lower
// case. Different spellings of one address are one Email, so that it cannot
// have two accounts.
type Email string

// ParseEmail returns the canonical form of text, or an error that wraps
// ErrEmail.
//
// Only ASCII is allowed; other domains have their "xn--" form. So the
// canonical form is the same in the gate, whose login throttle counts by it:
// in ASCII no two letters fold to the same one. Quoted local parts and address
// literals are refused: they are unused, and can contain characters that mail
// programs, logs and web pages read differently.
func ParseEmail(text string) (Email, error) {
	text = strings.TrimSpace(text)
	if len(text) > maxEmail {
		return "", fmt.Errorf("%w: longer than %d bytes", ErrEmail, maxEmail)
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return "", fmt.Errorf("%w: only printable ASCII without spaces", ErrEmail)
		}
	}
	address, err := mail.ParseAddress(text)
	if err != nil || address.Name != "" || address.Address != text {
		return "", fmt.Errorf("%w: not of the form name@example.com", ErrEmail)
	}
	local, domain, _ := strings.Cut(text, "@")
	if len(local) > maxLocalPart {
		return "", fmt.Errorf("%w: more than %d bytes before the @", ErrEmail, maxLocalPart)
	}
	if !isDomain(domain) {
		return "", fmt.Errorf("%w: no host name after the @", ErrEmail)
	}
	return Email(strings.ToLower(text)), nil
}

// isDomain reports whether s is a host name: labels of letters, digits and
// inner hyphens (RFC 1123). A single label is one, "localhost" for
// instance.
func isDomain(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, r := range label {
			if r != '-' && !isAlphanumeric(r) {
				return false
			}
		}
	}
	return true
}

func isAlphanumeric(r rune) bool {
	return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}
