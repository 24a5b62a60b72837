package route

import (
	"net/url"
	"strings"
)

// node is a place in the tree of one method's patterns. The segments of a
// path lead to it.
type node[T comparable] struct {
	literals []literal[T]
	index    map[string]*node[T] // of literals, if there are many
	wildcard *node[T]            // {name}
	end      *leaf[T]            // the pattern ends here
	slash    *leaf[T]            // it ends here with a slash: /{$}
	rest     *leaf[T]            // it takes all that follows: /{name...}, /
}

// literal is a decoded segment and the node behind it.
type literal[T comparable] struct {
	segment string
	node    *node[T]
}

// leaf is the end of a pattern. It is multi if the pattern ends with a slash or
// {name...}, and named in the second case.
type leaf[T comparable] struct {
	value        T
	multi, named bool
	narrower     []tree[bool] // the more specific patterns of other values, see isAlias
}

// add puts a value under a pattern that ServeMux accepts.
func (n *node[T]) add(path string, value T) *leaf[T] {
	for path != "" {
		if path == "/" {
			n.rest = &leaf[T]{value: value, multi: true}
			return n.rest
		}
		var segment string
		segment, path = cut(path)
		switch {
		case segment == "{$}":
			n.slash = &leaf[T]{value: value}
			return n.slash
		case strings.HasPrefix(segment, "{") && strings.HasSuffix(segment, "...}"):
			n.rest = &leaf[T]{value: value, multi: true, named: true}
			return n.rest
		case strings.HasPrefix(segment, "{"):
			if n.wildcard == nil {
				n.wildcard = &node[T]{}
			}
			n = n.wildcard
		default:
			n = n.literal(segment)
		}
	}
	n.end = &leaf[T]{value: value}
	return n.end
}

// literal returns the node behind a literal segment, which a pattern may
// write with escapes.
func (n *node[T]) literal(segment string) *node[T] {
	if decoded, err := url.PathUnescape(segment); err == nil {
		segment = decoded // ServeMux keeps a segment that it cannot decode
	}
	for _, l := range n.literals {
		if l.segment == segment {
			return l.node
		}
	}
	next := &node[T]{}
	n.literals = append(n.literals, literal[T]{segment, next})
	if n.index == nil && len(n.literals) > fewLiterals {
		n.index = make(map[string]*node[T])
		for _, l := range n.literals {
			n.index[l.segment] = l.node
		}
	}
	if n.index != nil {
		n.index[segment] = next
	}
	return next
}

// fewLiterals is how many literals are compared one after the other. With more of
// them, a map is faster.
const fewLiterals = 8

// match finds the pattern for the part of a path below n, which begins
// with a slash or is empty. A literal goes before a wildcard, and a
// wildcard before a multi-segment wildcard. Where the first choice has no
// match, the next one is tried: "/a/b/c" matches "/a/{x}/c" although
// there is "/a/b/z". Each node is visited at most once.
func (n *node[T]) match(path string) *leaf[T] {
	switch {
	case path == "":
		return n.end
	case path == "/" && n.slash != nil:
		return n.slash
	case path == "/":
		return n.rest
	}
	if next, below := n.next(path); next != nil {
		if found := next.match(below); found != nil {
			return found
		}
	}
	if n.wildcard != nil {
		segment, below := cut(path)
		if found := n.wildcard.match(below); found != nil && isName(segment) {
			return found
		}
	}
	if n.rest != nil && isClean(path) {
		return n.rest
	}
	return nil
}

// next returns the node behind the literal that begins a path, or nil, and the
// path below it.
func (n *node[T]) next(path string) (next *node[T], below string) {
	if n.index != nil {
		segment, below := cut(path)
		return n.index[segment], below
	}
	for i := range n.literals {
		below, ok := strings.CutPrefix(path[1:], n.literals[i].segment)
		if ok && (below == "" || below[0] == '/') {
			return n.literals[i].node, below
		}
	}
	return nil, ""
}

// cut splits the first segment off a path that begins with a slash.
func cut(path string) (segment, below string) {
	// Segments are short: strings.IndexByte takes longer.
	for end := 1; end < len(path); end++ {
		if path[end] == '/' {
			return path[1:end], path[end:]
		}
	}
	return path[1:], ""
}

// isName reports whether ServeMux leaves a segment in a path.
func isName(segment string) bool {
	return segment != "" && segment != "." && segment != ".."
}

// isClean reports whether ServeMux leaves the whole path as it is: only
// the segment after the last slash may be empty.
func isClean(path string) bool {
	for path != "" && path != "/" {
		var segment string
		segment, path = cut(path)
		if !isName(segment) {
			return false
		}
	}
	return true
}
