package account

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Bounds of a new password. NIST SP 800-63B-4 (3.1.1.2) asks for at least 15
// characters where a password is the only factor, for room for long phrases,
// for a check against common and guessable passwords, and for no rules of
// composition. The upper bound only keeps the work bounded. The bounds do not
// apply to a login: an older, shorter password still works.
const (
	MinPassword      = 15 // characters
	maxPasswordBytes = 1024
)

// PasswordError says which rule a new password breaks. It wraps ErrPassword.
type PasswordError struct {
	// Advice is for the person who chooses the password: whole sentences,
	// without the password.
	Advice string
}

func (e *PasswordError) Error() string { return ErrPassword.Error() + ": " + e.Advice }

func (*PasswordError) Unwrap() error { return ErrPassword }

const advice = "A phrase of several words is best."

var (
	errShort = &PasswordError{fmt.Sprintf("Use at least %d characters. %s", MinPassword, advice)}
	errLong  = &PasswordError{fmt.Sprintf("Use at most %d bytes.", maxPasswordBytes)}
	errUTF8  = &PasswordError{"Use UTF-8 text."}
	errEmail = &PasswordError{"The password must not be your e-mail address. " + advice}
)

// CheckPassword returns a *PasswordError if a new password of the account with
// this e-mail address is not allowed. The names are other words that an
// attacker would try, such as the name of the product. It does not hash.
func CheckPassword(password string, email Email, names ...string) error {
	switch {
	case len(password) > maxPasswordBytes:
		return errLong
	case !utf8.ValidString(password):
		return errUTF8
	}
	password = norm.NFC.String(password)
	local, _, _ := strings.Cut(string(email), "@")
	switch {
	case email != "" && (strings.EqualFold(password, string(email)) || strings.EqualFold(password, local)):
		return errEmail
	case utf8.RuneCountInString(password) < MinPassword:
		return errShort
	}
	if reason := guessable(password, words(email, names)); reason != "" {
		return &PasswordError{"This password is easy to guess: it contains " + reason + ". " + advice}
	}
	return nil
}

// words returns what an attacker knows about the account, in lower case: the
// names, the e-mail address and their parts.
func words(email Email, names []string) []string {
	known := []string{"tollgate", string(email)}
	for _, name := range append(names, string(email)) {
		parts := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
		for _, part := range append(parts, strings.Join(parts, "")) {
			if utf8.RuneCountInString(part) > 1 {
				known = append(known, part)
			}
		}
	}
	return known
}
