package route

import (
	"slices"
	"strings"
)

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

// decodesTo reports whether a valid encoded path is this decoded one.
func decodesTo(encoded, path string) bool {
	for encoded != "" {
		b, width := decode(encoded)
		if path == "" || b != path[0] {
			return false
		}
		encoded, path = encoded[width:], path[1:]
	}
	return path == ""
}

// decodeOnce decodes a path, and keeps broken escapes. With names, an encoded
// slash or backslash becomes a NUL.
func decodeOnce(path string, names bool) string {
	if !strings.Contains(path, "%") {
		return path
	}
	var plain strings.Builder
	for path != "" {
		b, width := decode(path)
		if width == 0 {
			b, width = path[0], 1
		}
		if names && width > 1 && (b == '/' || b == '\\') {
			b = 0
		}
		plain.WriteByte(b)
		path = path[width:]
	}
	return plain.String()
}

// decode returns the first byte of an encoded text and the length of its
// spelling: 1, 3 for an escape, 0 for a broken escape.
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
