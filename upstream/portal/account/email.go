package account

import (
	"fmt"
	"net/mail"
	"regexp"
	"strings"
)

// Bounds of an e-mail address in bytes: a forward path of RFC 5321 has at most
// 256 with its angle brackets, and a local part 64.
const (
	maxEmail     = 254
	maxLocalPart = 64
)

// hostName matches labels of up to 63 letters, digits and inner hyphens (RFC
// 1123). A single label is a host name, "localhost" for instance.
var hostName = regexp.MustCompile(`^(?i:[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*)$`)

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
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%w: only printable ASCII without spaces", ErrEmail)
	}
	address, err := mail.ParseAddress(text)
	if err != nil || address.Name != "" || address.Address != text {
		return "", fmt.Errorf("%w: not of the form name@example.com", ErrEmail)
	}
	local, domain, _ := strings.Cut(text, "@")
	if len(local) > maxLocalPart {
		return "", fmt.Errorf("%w: more than %d bytes before the @", ErrEmail, maxLocalPart)
	}
	if !hostName.MatchString(domain) {
		return "", fmt.Errorf("%w: no host name after the @", ErrEmail)
	}
	return Email(strings.ToLower(text)), nil
}
