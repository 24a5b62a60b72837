package route

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Guard is the set of path prefixes that are closed: nothing below them
// is served but what was declared. It is immutable and safe for
// concurrent use.
type Guard struct {
	// prefixes are folded; see fold.
	prefixes []string
}

// NewGuard returns the guard of the given prefixes, which are decoded
// paths that begin with a slash. Without any, everything is closed, as
// with "/".
//
// A prefix is a prefix of characters: "/api" closes "/api", "/api/x" and
// "/apiary". With a slash at the end it closes a folder: "/api/" closes
// what lies in it and also exactly "/api", which some servers serve as
// the folder itself, but not "/apiary".
func NewGuard(prefixes ...string) (*Guard, error) {
	if len(prefixes) == 0 {
		prefixes = []string{"/"}
	}
	guard := &Guard{prefixes: make([]string, 0, len(prefixes))}
	for _, prefix := range prefixes {
		if !strings.HasPrefix(prefix, "/") {
			return nil, fmt.Errorf("guard %q must begin with a slash", prefix)
		}
		if examine(prefix, false) != 0 {
			return nil, fmt.Errorf("guard %q cannot be the beginning of any path: write it decoded, "+
				`without empty, "." and ".." segments, and without any of %% ; ? # \ and control characters`, prefix)
		}
		guard.prefixes = append(guard.prefixes, strings.Map(fold, prefix))
	}
	return guard, nil
}

// Covers reports whether a decoded path is closed. Letters are compared
// without case, and parameters of segments (";v=1") are passed over: a
// server that does the same would serve "/API/x" and "/api;v=1/x" as what
// the guard closes. The empty path is "/".
func (g *Guard) Covers(path string) bool {
	for _, prefix := range g.prefixes {
		// Most paths are written as the guard is.
		if prefix == "/" || strings.HasPrefix(path, prefix) || begins(path, prefix) {
			return true
		}
	}
	return false
}

// begins reports whether a path begins with a folded prefix, which has no
// ';' in it. A path that would end here for one who decodes it twice, at
// a '?' or '#', counts as ended.
func begins(path, prefix string) bool {
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

// fold returns one letter for all that anybody may take for the same
// without case. Lower case of upper case joins what Unicode's simple
// folding joins (U+212A KELVIN SIGN is k, U+017F LONG S is s), and besides
// the dotless and the dotted i, which Java's equalsIgnoreCase takes for
// an i.
func fold(r rune) rune {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	return unicode.ToLower(unicode.ToUpper(r))
}

// maxDecodings is how often an open path may be decoded again until there
// is nothing left to decode. More is no name but an attempt, and without
// a bound its length would be a way to keep the gate busy.
const maxDecodings = 4

// misleads reports whether an open path would lead below the guard, or
// has to be resolved, for a server that decodes more often than HTTP
// asks for, and takes a backslash for a slash.
func (g *Guard) misleads(path string) bool {
	for range maxDecodings {
		again := decodeLoosely(path)
		if again == path {
			return false
		}
		path = again
		if g.Covers(path) || examine(path, false)&crooked != 0 {
			return true
		}
	}
	return decodeLoosely(path) != path
}

// decodeLoosely resolves the escapes of a text once, leaves broken ones
// as they are, and turns backslashes into slashes.
func decodeLoosely(text string) string {
	var plain strings.Builder
	for text != "" {
		b, width := decode(text)
		if width == 0 {
			b, width = text[0], 1
		}
		if b == '\\' {
			b = '/'
		}
		plain.WriteByte(b)
		text = text[width:]
	}
	return plain.String()
}

// Plain returns what a lenient server may take a path for: without case,
// without the parameters of its segments, without a slash at the end,
// decoded as often as there is something to decode, and without what it
// then takes for a query or a fragment.
func Plain(path string) string {
	for range maxDecodings {
		again := decodeLoosely(path)
		if again == path {
			break
		}
		path = again
	}
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		segments[i], _, _ = strings.Cut(segment, ";")
	}
	path = strings.Map(fold, strings.Join(segments, "/"))
	for len(path) > 1 && strings.HasSuffix(path, "/") {
		path = path[:len(path)-1]
	}
	return path
}
