package route

import (
	"errors"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	// ErrBadPath means that a request target can be read in more than
	// one way, or in none. It is answered with 400.
	ErrBadPath = errors.New("ambiguous request target")
	// ErrBadMethod means that the method is CONNECT, which asks for a
	// tunnel, or TRACE, which would echo credentials (RFC 9110, 9.3.8).
	// It is answered with 405.
	ErrBadMethod = errors.New("method not allowed on any path")
)

// findings are what is to be said against a path.
type findings uint8

const (
	// foul: control characters, backslashes, invalid UTF-8, broken
	// escapes, an encoded slash, no slash at the front.
	foul findings = 1 << iota
	// crooked: empty, "." and ".." segments, which servers resolve or
	// not, also with a parameter behind them ("..;x"), which Java
	// servlet containers cut off before they resolve.
	crooked
	// special: '%', ';', '?' or '#' in the decoded path. They are honest
	// characters of a name and mean something else to whoever decodes a
	// path twice or cuts parameters off.
	special
)

// CheckTarget judges a request before anything else looks at it, but for
// [Table.MatchWritten], which finds only what CheckTarget lets through. It
// reports whether the path is closed, which is to say covered by the
// guard, and returns [ErrBadPath], [ErrBadMethod] or nil, all of them as
// they are, not wrapped. It allocates nothing for a path that is not
// refused, unless that path is open and has an encoded percent sign.
//
// Both spellings of the target are judged: u, which is what the server
// behind the gate will be sent, and requestURI, which is what the client
// wrote. They differ when something in front of the gate has rewritten
// the request, and by then a ".." that the client sent may have been
// resolved into u. An empty requestURI stands for a request that was not
// read from a connection, and leaves u alone to be judged.
//
// An absolute target ("http://host/path", RFC 9112, 3.2.2) is judged by
// its path. The query is never judged: it names no resource to a router.
func (g *Guard) CheckTarget(method, requestURI string, u *url.URL) (closed bool, err error) {
	if strings.EqualFold(method, "CONNECT") || strings.EqualFold(method, "TRACE") {
		return true, ErrBadMethod
	}
	closed = g.Covers(u.Path)
	written, ok := pathOf(requestURI)
	if !ok || u.Opaque != "" {
		return closed, ErrBadPath
	}
	found := examine(u.Path, false)
	if u.RawPath != "" {
		found |= examine(u.RawPath, true)
	}
	// One look is enough where both are the same and nothing was found: a
	// '%' would have been.
	if found != 0 || written != u.Path {
		found |= examine(written, true)
	}
	switch {
	case found&(foul|crooked) != 0:
		return closed, ErrBadPath
	case found&special == 0:
		return closed, nil
	case closed || g.misleads(u.Path):
		return closed, ErrBadPath
	default:
		return closed, nil
	}
}

// isWritten reports whether a path stands in a request target as it is,
// with nothing but a query behind it.
func isWritten(path, target string) bool {
	if len(target) > len(path) && target[len(path)] == '?' {
		target = target[:len(path)]
	}
	return target == path
}

// pathOf cuts the path out of a request target, still encoded. It reports
// false for targets that have none: "*", an authority, an opaque URI.
func pathOf(target string) (string, bool) {
	if target == "" {
		return "", true
	}
	if target[0] != '/' {
		rest, ok := cutScheme(target)
		if !ok {
			return "", false
		}
		end := strings.IndexAny(rest, "/?#")
		if end < 0 {
			end = len(rest)
		}
		authority := rest[:end]
		// RFC 9110, 4.2.1 and 4.2.4: a host must be there, and a user
		// name before it is treated as an error.
		if authority == "" || strings.ContainsAny(authority, `@\`) {
			return "", false
		}
		target = rest[end:]
	}
	if query := strings.IndexByte(target, '?'); query >= 0 {
		target = target[:query]
	}
	return target, true
}

func cutScheme(target string) (string, bool) {
	for _, scheme := range [...]string{"http://", "https://"} {
		if len(target) >= len(scheme) && strings.EqualFold(target[:len(scheme)], scheme) {
			return target[len(scheme):], true
		}
	}
	return "", false
}

// segment is what a segment has been so far.
type segment uint8

const (
	empty segment = iota
	dot
	dotDot
	name
)

// next is the segment once b is added to it, or the one that b begins.
func (s segment) next(b byte) segment {
	switch {
	case b == '/':
		return empty
	case b != '.' || s >= dotDot:
		return name
	default:
		return s + 1
	}
}

// examine looks at each byte of a path once, through its escapes if the
// path is encoded. The empty path has no findings: it is what clients may
// write for "/" in an absolute target.
func examine(path string, encoded bool) findings {
	if path == "" {
		return 0
	}
	if path[0] != '/' {
		return foul
	}
	var found findings
	seg := empty
	for i := 1; i < len(path); {
		b := path[i]
		if isPlain(b) {
			seg = name
			i++
			continue
		}
		width := 1
		if encoded {
			b, width = decode(path[i:])
		}
		if b >= utf8.RuneSelf {
			width = character(path[i:], encoded)
		}
		if width == 0 {
			found |= foul
			seg = name
			i++
			continue
		}
		found |= weigh(b, seg, encoded, width > 1)
		seg = seg.next(b)
		i += width
	}
	if seg == dot || seg == dotDot {
		found |= crooked
	}
	return found
}

// weigh returns what is to be said against a decoded byte that follows on
// seg in its segment. The encoded tells whether the path was, escaped
// whether this byte was written as an escape in it.
func weigh(b byte, seg segment, encoded, escaped bool) findings {
	switch {
	case b < ' ', b == 0x7f, b == '\\':
		return foul
	case b == '/' && escaped:
		return foul
	case b == '#' && encoded && !escaped:
		// A fragment has no place in a request target.
		return foul
	case b == '/' && seg != name, b == ';' && seg != name:
		return crooked
	case (b == '?' || b == '#') && (seg == dot || seg == dotDot):
		return crooked
	case b == '%', b == ';', b == '?', b == '#':
		return special
	default:
		return 0
	}
}

// isPlain tells the bytes that most paths are made of, to be done with
// them at once.
func isPlain(b byte) bool {
	return b|0x20-'a' < 26 || b-'0' < 10
}

// decode returns the first byte of an encoded text and how many bytes it
// is written with: 1, 3 for an escape, 0 for a broken escape.
func decode(text string) (byte, int) {
	if text[0] != '%' {
		return text[0], 1
	}
	if len(text) < 3 {
		return 0, 0
	}
	high, low := unhex(text[1]), unhex(text[2])
	if high > 15 || low > 15 {
		return 0, 0
	}
	return high<<4 | low, 3
}

// unhex returns the value of a hexadecimal digit, and 255 for no digit.
func unhex(b byte) byte {
	switch {
	case b-'0' < 10:
		return b - '0'
	case b|0x20-'a' < 6:
		return b | 0x20 - 'a' + 10
	default:
		return 255
	}
}

// character returns how many bytes of the text the UTF-8 character takes
// that it begins with, and 0 if there is none, or a control character:
// U+0080 to U+009F are two bytes long. Overlong forms, halves of
// surrogates and values above U+10FFFF are none (RFC 3629, 3).
func character(text string, encoded bool) int {
	var buffer [utf8.UTFMax]byte
	used := 0
	for n := range buffer {
		if used == len(text) {
			return 0
		}
		width := 1
		buffer[n] = text[used]
		if encoded {
			buffer[n], width = decode(text[used:])
		}
		if width == 0 {
			return 0
		}
		used += width
		if read := buffer[:n+1]; utf8.FullRune(read) {
			r, size := utf8.DecodeRune(read)
			if r == utf8.RuneError && size == 1 || unicode.IsControl(r) {
				return 0
			}
			return used
		}
	}
	return 0
}
