package route

import (
	"fmt"
	"slices"
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

// maxDecodings bounds how often a path is decoded again. No honest name
// needs more, and without a bound a long path would keep the gate busy.
const maxDecodings = 4

// misleads reports whether a path leads to a path that needs to be resolved on
// a server that decodes more often than HTTP asks for and reads a backslash as a
// slash. An open path must not lead below the guard either. A closed one must
// not lead to characters that end it for some servers (NUL), that are other
// characters for some (invalid UTF-8), or that JavaScript's unescape decodes.
func (g *Guard) misleads(path string, closed bool) bool {
	refused := unclean
	if closed {
		refused |= invalid
	}
	for range maxDecodings {
		if closed && strings.Contains(strings.ToLower(path), "%u00") {
			return true
		}
		again := decodeLoosely(path)
		if again == path {
			return false
		}
		path = again
		if !closed && g.Covers(path) || scan(path, false)&refused != 0 {
			return true
		}
	}
	return decodeLoosely(path) != path
}

// decodeLoosely decodes the escapes of a text once, and turns backslashes
// into slashes.
func decodeLoosely(text string) string {
	return strings.ReplaceAll(decodeOnce(text, false), `\`, "/")
}

// maxSpecial is the longest path with special characters that has a route, in
// bytes, and maxReadings how many readings it can have: all are checked before
// the token is.
const (
	maxSpecial  = 8 << 10
	maxReadings = 64
)

// readings returns the decoded paths that servers may read in an encoded one, or
// nil if there are too many. A server decodes it once or more, before or after it
// splits it into segments, and may read a backslash as a slash, remove
// parameters and end the path at a '?' or '#', in any order. A NUL is a slash or
// a backslash within a segment.
func readings(encoded string) (all []string) {
	if len(encoded) > maxSpecial {
		return nil
	}
	add := func(path string) {
		if !slices.Contains(all, path) {
			all = append(all, path)
		}
	}
	for _, path := range [...]string{encoded, withoutParameters(encoded)} {
		add(decodeOnce(path, true))
		add(decodeOnce(path, false))
	}
	for i := 0; i < len(all); i++ {
		if len(all) > maxReadings {
			return nil
		}
		path := all[i]
		add(decodeOnce(path, true))
		add(decodeOnce(path, false))
		add(strings.ReplaceAll(path, `\`, "/"))
		add(withoutParameters(path))
		add(withoutQuery(path))
	}
	return all
}

// withoutQuery ends a decoded path at a '?' or '#'.
func withoutQuery(path string) string {
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		return path[:end]
	}
	return path
}

// withoutParameters removes the parameters of the segments of a path.
func withoutParameters(path string) string {
	if !strings.Contains(path, ";") {
		return path
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		segments[i], _, _ = strings.Cut(segment, ";")
	}
	return strings.Join(segments, "/")
}
