// Package keyfile reads keys that other systems made, for an import: JSON
// lines, the declarative file of Kong, and the table of Laravel Sanctum.
//
// It hashes the tokens: what it returns has none, and neither have its errors.
// The gate checks what this package does not: accounts, plans, abilities,
// names and expiries.
package keyfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// Options are for all formats.
type Options struct {
	// Plan is the plan of accounts that the gate does not know, where a line
	// has none. Empty for no plan.
	Plan string
	// AccountPrefix is put in front of each account.
	AccountPrefix string
	// Type selects the rows of a Sanctum table with this tokenable_type.
	Type string
	// ExpiresAfter is how long the tokens of a Sanctum table live since
	// created_at, or 0 if their age does not matter.
	ExpiresAfter time.Duration
	// Now is the time from which a ttl of Kong counts.
	Now time.Time
}

// Keys are the keys of a file.
type Keys struct {
	Lines []Line
	// Errors are the lines that have no key to import.
	Errors []Error
}

// Line is a key and where it is in the file.
type Line struct {
	Number int
	api.KeyLine
}

// Error is a mistake in a line.
type Error struct {
	Line    int    `json:"line"`
	Message string `json:"message"`
}

// add adds a key, or the mistake of its line.
func (k *Keys) add(o Options, number int, line api.KeyLine, mistake error) {
	if mistake != nil {
		k.Errors = append(k.Errors, Error{number, mistake.Error()})
		return
	}
	line.Account = o.AccountPrefix + line.Account
	if line.Plan == nil && o.Plan != "" {
		line.Plan = &o.Plan
	}
	k.Lines = append(k.Lines, Line{number, line})
}

var errOwnToken = errors.New("the token begins with tgk_ or tgl_: keys of the gate cannot be imported")

// hash returns the SHA-256 of a token without its prefix. The token may begin
// with the prefix. Errors do not show the token.
func hash(text, prefix string) (string, error) {
	whole, rest := text, text
	if prefix != "" {
		if head := prefix + "|"; len(text) > len(head) && text[:len(head)] == head {
			rest = text[len(head):]
		}
		whole = prefix + "|" + rest
	}
	switch {
	case token.IsOwn(whole):
		return "", errOwnToken
	case isPlaceholder(text):
		return "", errPlaceholder
	case len(rest) < token.MinForeign:
		return "", fmt.Errorf("the token has fewer than %d characters", token.MinForeign)
	case !token.IsForeign(whole):
		return "", fmt.Errorf("the token has more than %d characters, or one that is not visible ASCII", token.MaxText)
	}
	sum := sha256.Sum256([]byte(rest))
	return hex.EncodeToString(sum[:]), nil
}

// maxName is the maximum number of characters in the name of a key.
const maxName = 64

// names are the names that the keys of each account have.
type names map[[2]string]bool

// unique returns the name, or the name with the id behind it if a key of the
// account has that name already.
func (n names) unique(account, name, id string) string {
	name = norm.NFC.String(name)
	if name == "" {
		return ""
	}
	free := cut(name, maxName)
	for again := 1; n[[2]string{account, free}]; again++ {
		suffix := " " + id
		if again > 1 {
			suffix = fmt.Sprintf(" %s-%d", id, again)
		}
		free = cut(name, maxName-utf8.RuneCountInString(suffix)) + suffix
	}
	n[[2]string{account, free}] = true
	return free
}

// cut returns the first characters of a text.
func cut(text string, characters int) string {
	if runes := []rune(text); len(runes) > characters {
		return string(runes[:max(0, characters)])
	}
	return text
}
