package route

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Guard is the set of closed path prefixes: below them, only declared
// logins and endpoints are served. It is immutable and safe for concurrent
// use.
type Guard struct {
	prefixes []string // after fold
}

// NewGuard returns the guard of the given prefixes, which are decoded
// paths that begin with a slash. The default is "/", which closes
// everything.
//
// A prefix is a prefix of characters: "/api" closes "/api", "/api/x" and
// "/apiary". With a slash at the end it closes a folder: "/api/" closes
// all paths in the folder and also "/api", which some servers serve as the
// folder itself, but not "/apiary".
func NewGuard(prefixes ...string) (*Guard, error) {
	if len(prefixes) == 0 {
		prefixes = []string{"/"}
	}
	guard := &Guard{prefixes: make([]string, 0, len(prefixes))}
	for _, prefix := range prefixes {
		if err := checkPrefix(prefix); err != nil {
			return nil, err
		}
		if scan(prefix, false) != 0 {
			return nil, fmt.Errorf("guard %q cannot match any path: write it decoded, "+
				`without empty, "." and ".." segments, and without %% ; ? # \ and control characters`, prefix)
		}
		guard.prefixes = append(guard.prefixes, strings.Map(fold, prefix))
	}
	return guard, nil
}

// String lists the prefixes.
func (g *Guard) String() string { return strings.Join(g.prefixes, ", ") }

// Covers reports whether a decoded path is closed. It ignores case and the
// parameters of segments (";v=1"): a server that ignores them too would
// serve "/API/x" and "/api;v=1/x" as paths below the guard. The empty path
// is "/".
func (g *Guard) Covers(path string) bool {
	for _, prefix := range g.prefixes {
		if prefix == "/" || strings.HasPrefix(path, prefix) || hasPrefixFold(path, prefix) {
			return true
		}
	}
	return false
}

// hasPrefixFold reports whether a path begins with a folded prefix, which
// has no ';' in it. The path ends at a '?' or '#': a server that decodes
// it twice would end it there.
func hasPrefixFold(path, prefix string) bool {
	for prefix != "" {
		if path == "" || path[0] == '?' || path[0] == '#' {
			return prefix == "/"
		}
		if path[0] == ';' {
			end := strings.IndexByte(path, '/')
			if end < 0 {
				end = len(path)
			}
			path = path[end:]
			continue
		}
		r, width := rune(path[0]), 1
		if r >= utf8.RuneSelf {
			r, width = utf8.DecodeRuneInString(path)
		}
		want, wide := rune(prefix[0]), 1
		if want >= utf8.RuneSelf {
			want, wide = utf8.DecodeRuneInString(prefix)
		}
		if fold(r) != want {
			return false
		}
		path, prefix = path[width:], prefix[wide:]
	}
	return true
}

// fold maps all letters that some server treats as equal without case to
// the same letter. Lower case of upper case joins the letters that
// Unicode's simple folding joins (U+212A KELVIN SIGN is k, U+017F LONG S is
// s), and also the dotless and the dotted i, which are an i to Java's
// equalsIgnoreCase.
func fold(r rune) rune {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	return unicode.ToLower(unicode.ToUpper(r))
}
