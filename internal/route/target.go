package route

import (
	"cmp"
	"errors"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	// ErrBadPath means that servers can read a request target in more than
	// one way, or not at all. The answer is 400.
	ErrBadPath = errors.New("ambiguous request target")
	// ErrBadMethod means that the method is CONNECT, which asks for a
	// tunnel, or TRACE, which would echo credentials (RFC 9110, 9.3.8).
	// The answer is 405.
	ErrBadMethod = errors.New("method not allowed on any path")
)

// pathFlags say what scan found in a path.
type pathFlags uint8

const (
	// invalid: control characters, raw backslashes, invalid UTF-8, broken
	// escapes, no slash at the front.
	invalid pathFlags = 1 << iota
	// unclean: empty, "." and ".." segments, which only some servers
	// resolve. Also with a parameter behind them ("..;x"): Java servlet
	// containers cut it off before they resolve the segment.
	unclean
	// special: '%', ';', '?' or '#' in the decoded path. These are valid
	// in a name, but have a meaning to a server that decodes a path twice
	// or cuts parameters off.
	special
	// slash: an encoded slash or backslash. It is valid in a name, but ends
	// a segment for a server that decodes a path before it reads it.
	slash
)

// Target is what [Guard.CheckTarget] finds in a request target.
type Target struct {
	// Closed tells that the path is below the guard, as the client wrote it
	// or as it is now.
	Closed bool
	// Path is the decoded path as it is now.
	Path string
	// Special is the encoded path as it is now, if it or the written one has
	// special characters in names: an encoded '/', '\', '%', ';', '?' or '#', or
	// a ';'. Servers can read them in several ways, see [Table.Find].
	Special string
	// readings are the ways to read Special, after Table.Find.
	readings []string
	// Names has the decoded path with a NUL for each encoded slash or
	// backslash, if there are any: as it is now, and as it was written. Some
	// servers end a segment there, others read a part of a name.
	Names []string
	// Written is the decoded path as the client wrote it, if a handler in
	// front of the gate has changed it, and "" otherwise.
	Written string
	// alias tells that the path is another spelling of a more specific pattern,
	// after Table.Find.
	alias bool
}

// CheckTarget checks a request before anything else reads its path. The
// error is [ErrBadPath], [ErrBadMethod] or nil, never wrapped. For a path
// that it accepts it allocates nothing, unless the path was rewritten, or is
// open and has special characters in escapes.
//
// Special characters are left to [Table.Find], which knows the patterns.
//
// It checks both spellings of the target: u, which the server behind the
// gate will get, and requestURI, which the client wrote. They differ when
// a handler in front of the gate has rewritten the request. The service can
// read either one: FastCGI sends both. An empty requestURI means that the
// request was not read from a connection; only u is checked.
//
// Of an absolute target ("http://host/path", RFC 9112, 3.2.2) only the
// path is checked. The query is never checked: routers do not read it.
func (g *Guard) CheckTarget(method, requestURI string, u *url.URL) (t Target, err error) {
	if strings.EqualFold(method, "CONNECT") || strings.EqualFold(method, "TRACE") {
		return Target{Closed: true, Path: u.Path}, ErrBadMethod
	}
	t.Closed, t.Path = g.Covers(u.Path), u.Path
	written, ok := pathOf(requestURI)
	if !ok || u.Opaque != "" {
		return t, ErrBadPath
	}
	found := scan(u.Path, false)
	if u.RawPath != "" {
		found |= scan(u.RawPath, true)
	}
	// A path without escapes need not be scanned twice: scan would have
	// found a '%'.
	if found != 0 || written != u.Path {
		found |= scan(written, true)
	}
	if found&(invalid|unclean) != 0 {
		return t, ErrBadPath
	}
	if requestURI != "" && written != u.Path && !decodesTo(written, u.Path) {
		t.Written = cmp.Or(decodeOnce(written, false), "/") // "/" is sent for the empty path
		t.Closed = t.Closed || g.Covers(t.Written)
		if scan(t.Written, false)&unclean != 0 { // behind an encoded slash
			return t, ErrBadPath
		}
	}
	if found&(special|slash) == 0 {
		return t, nil
	}
	t.Special = u.EscapedPath()
	if found&slash != 0 {
		t.Names = []string{decodeOnce(t.Special, true), decodeOnce(written, true)}
	}
	// A path that is sent on in another spelling can have lost a name.
	respelled := t.Closed && requestURI != "" && t.Written == "" && t.Special != written
	if respelled || g.misleads(u.Path, t.Closed) || t.Written != "" && g.misleads(t.Written, t.Closed) {
		return t, ErrBadPath
	}
	return t, nil
}

// pathOf cuts the path out of a request target, still encoded. It reports
// false for a target without a path: "*", an authority, an opaque URI.
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
		// RFC 9110, 4.2.1 and 4.2.4: the host is required, and a user name
		// in front of it is an error.
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

// segment is the kind of a segment, as far as it is read.
type segment uint8

const (
	empty segment = iota
	dot
	dotDot
	name
)

// next returns the kind of the segment with b added, or of the segment
// that b begins.
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

// scan reads each byte of a path once and returns its flags. It decodes
// escapes if the path is encoded. The empty path has no flags: clients may
// write it for "/" in an absolute target.
func scan(path string, encoded bool) pathFlags {
	if path == "" {
		return 0
	}
	if path[0] != '/' {
		return invalid
	}
	var found pathFlags
	seg := empty
	for i := 1; i < len(path); {
		b := path[i]
		if isPlain[b] {
			seg = name
			i++
			continue
		}
		if b == '/' && seg == name {
			seg = empty
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
			found |= invalid
			seg = name
			i++
			continue
		}
		escaped := width > 1
		found |= flag(b, seg, encoded, escaped)
		if escaped && b == '/' {
			b = '%' // part of a name, as far as servers agree on it
		}
		seg = seg.next(b)
		i += width
	}
	if seg == dot || seg == dotDot {
		found |= unclean
	}
	return found
}

// flag returns the flags of a decoded byte that follows seg in its
// segment. encoded tells whether the path is encoded, and escaped whether
// the path has this byte as an escape.
func flag(b byte, seg segment, encoded, escaped bool) pathFlags {
	switch {
	case b < ' ', b == 0x7f, b == '\\' && encoded && !escaped:
		return invalid
	case b == '\\', b == '/' && escaped:
		return slash
	case b == '#' && encoded && !escaped:
		// A request target has no fragment.
		return invalid
	case b == '/' && seg != name, b == ';' && seg != name:
		return unclean
	case (b == '?' || b == '#') && (seg == dot || seg == dotDot):
		return unclean
	case b == '%', b == ';', b == '?', b == '#':
		return special
	default:
		return 0
	}
}

// isPlain has the bytes that mean the same to all servers at any place of
// a segment: letters, digits and the marks of RFC 3986, 3.3, but for '.',
// ';' and '%'.
var isPlain = func() (plain [256]bool) {
	for _, b := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_~!$&'()*+,=:@") {
		plain[b] = true
	}
	return plain
}()

// character returns the length of the UTF-8 character at the beginning of
// a text, in bytes of the text. It returns 0 for a control character
// (U+0080 to U+009F are two bytes long) and for invalid UTF-8: overlong
// forms, halves of surrogates, values above U+10FFFF (RFC 3629, 3).
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
