package route

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Lenient returns the path that a lenient server may read: in lower case,
// decoded until nothing is left to decode, without the parameters of its
// segments, a query, a fragment or a slash at the end.
func Lenient(path string) string {
	for range maxDecodings {
		again := decodeLoosely(path)
		if again == path {
			break
		}
		path = again
	}
	return foldPath(withoutParameters(withoutQuery(path)))
}

// foldPath returns a path in lower case, without a slash at the end, and without
// dots and spaces there: Windows has no such names.
func foldPath(path string) string {
	path = strings.Map(fold, path)
	if below, whole := strings.CutPrefix(path, "/"); whole { // otherwise a segment
		return "/" + strings.TrimRight(below, "/. ")
	}
	return path
}

// isRead reports whether matches is true for a path that a lenient server may
// read: some servers keep %, ;, ? and # as a part of a name.
func isRead(path string, matches func(path string) bool) bool {
	return matches(Lenient(path)) || strings.ContainsAny(path, "%;?#") && matches(foldPath(path))
}

// lenient is a pattern as a lenient server reads it: without case and without a
// slash at the end.
type lenient struct {
	method string
	paths  node[bool]
	// patterns are paths as node.add takes them.
	patterns []string
	// examples are paths of the pattern: its wildcards are names that no pattern
	// has. A pattern that matches them matches all paths of this one.
	examples []string
}

// newLenient returns the lenient form of a pattern that ServeMux accepts. A
// pattern that ends with a slash or with {name...} matches all paths below a
// folder. A lenient server serves the folder's own path too.
func newLenient(method, path string) *lenient {
	path, ended := strings.CutSuffix(path, "/{$}")
	segments := strings.Split(path, "/")[1:] // the path begins with a slash
	below := false
	if last := len(segments) - 1; !ended && (segments[last] == "" || strings.HasSuffix(segments[last], "...}")) {
		segments, below = segments[:last], true
	}
	l := &lenient{method: method}
	var pattern, example strings.Builder
	for _, segment := range segments {
		if strings.HasPrefix(segment, "{") {
			pattern.WriteString("/{x}")
			example.WriteString("/\x00")
			continue
		}
		segment = Lenient(segment)
		example.WriteString("/" + segment)
		pattern.WriteByte('/')
		for _, b := range []byte(segment) {
			fmt.Fprintf(&pattern, "%%%02X", b) // no byte is syntax
		}
	}
	l.examples = []string{example.String()}
	if pattern.Len() > 0 {
		l.patterns = append(l.patterns, pattern.String())
	}
	if below {
		l.patterns = append(l.patterns, pattern.String()+"/")
		l.examples = append(l.examples, example.String()+"/\x00")
	}
	l.addTo(&l.paths)
	return l
}

func (l *lenient) addTo(paths *node[bool]) {
	for _, pattern := range l.patterns {
		paths.add(pattern, true)
	}
}

// has reports whether a pattern has requests of a method.
func has(pattern, method string) bool {
	return pattern == method || pattern == http.MethodGet && method == http.MethodHead || pattern == AnyMethod
}

// serves reports whether a lenient server would serve a path, in its lenient
// form, with this pattern.
func (l *lenient) serves(method, path string) bool {
	return has(l.method, method) && l.paths.match(path) != nil
}

// narrows reports whether the pattern is more specific than another one, for a
// method that both can have.
func (l *lenient) narrows(other *lenient) bool {
	return (has(l.method, other.method) || has(other.method, l.method)) && other.includes(l) && !l.includes(other)
}

// includes reports whether the pattern matches all paths of another one.
func (l *lenient) includes(other *lenient) bool {
	return !slices.ContainsFunc(other.examples, func(path string) bool { return l.paths.match(path) == nil })
}

// Alias reports whether a lenient server would serve a path with one of the
// patterns.
func (t *Table[T]) Alias(method, path string) bool {
	return isRead(path, func(path string) bool {
		return slices.ContainsFunc(t.patterns, func(p pattern[T]) bool { return p.serves(method, path) })
	})
}

// isAlias reports whether a lenient server would serve a path that matches this
// pattern with a more specific one: "/orders/EXPORT" matches "/orders/{id}", and
// such a server reads "/orders/export".
func (l *leaf[T]) isAlias(method, path string) bool {
	return isRead(path, func(path string) bool {
		return slices.ContainsFunc(l.narrower, func(t tree[bool]) bool { return has(t.method, method) && t.root.match(path) != nil })
	})
}

// narrow adds a more specific pattern.
func (l *leaf[T]) narrow(other *lenient) { other.addTo(treeOf(&l.narrower, other.method)) }
