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

// String returns the kind's name in the control API: "key" or "login".
func (k Kind) String() string {
	switch k {
	case Key:
		return "key"
	case Login:
		return "login"
	default:
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
}

func (k Kind) prefix() (string, error) {
	switch k {
	case Key:
		return keyPrefix, nil
	case Login:
		return loginPrefix, nil
	default:
		return "", fmt.Errorf("making a token: invalid kind %d", uint8(k))
	}
}

func kindOf(prefix string) (Kind, bool) {
	switch prefix {
	case keyPrefix:
		return Key, true
	case loginPrefix:
		return Login, true
	default:
		return 0, false
	}
}
