package token

import "fmt"

// Kind is the purpose of a token. The zero Kind is invalid.
type Kind uint8

const (
	// Key is the kind of the named, long-lived tokens that people make
	// for their programs.
	Key Kind = iota + 1
	// Login is the kind of the finite tokens that a login returns.
	Login
)

const (
	keyPrefix   = "tgk_"
	loginPrefix = "tgl_"
)

// kinds has the name of each kind in the control API, and its prefix.
var kinds = [...]struct{ name, prefix string }{Key: {"key", keyPrefix}, Login: {"login", loginPrefix}}

// String returns the kind's name in the control API: "key" or "login".
func (k Kind) String() string {
	if !k.isValid() {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return kinds[k].name
}

func (k Kind) isValid() bool { return k == Key || k == Login }
