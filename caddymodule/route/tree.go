package route

import (
	"net/url"
	"strings"
)

// node is a place in the tree of one method's patterns, reached by the
// segments on the way to it.
type node[T any] struct {
	literals map[string]*node[T] // by their decoded segment
	wildcard *node[T]            // {name}
	end      *leaf[T]            // the pattern ends here
	slash    *leaf[T]            // it ends here with a slash: /{$}
	rest     *leaf[T]            // it takes all that follows: /{name...}, /
}

type leaf[T any] struct {
	value T
}

// match is what was found for a path. It is exact unless a multi-segment
// wildcard stands for more than the empty rest of the path.
type match[T any] struct {
	leaf  *leaf[T]
	exact bool
}

// add puts a value under a pattern that ServeMux has taken.
func (n *node[T]) add(path string, value T) {
	for path != "" {
		if path == "/" {
			n.rest = &leaf[T]{value}
			return
		}
		var seg string
		seg, path = cut(path)
		switch {
		case seg == "{$}":
			n.slash = &leaf[T]{value}
			return
		case strings.HasPrefix(seg, "{") && strings.HasSuffix(seg, "...}"):
			n.rest = &leaf[T]{value}
			return
		case strings.HasPrefix(seg, "{"):
			n = n.child()
		default:
			n = n.literal(seg)
		}
	}
	n.end = &leaf[T]{value}
}

// child returns the node behind a single wildcard.
func (n *node[T]) child() *node[T] {
	if n.wildcard == nil {
		n.wildcard = &node[T]{}
	}
	return n.wildcard
}

// literal returns the node behind a literal segment, which a pattern may
// write with escapes.
func (n *node[T]) literal(seg string) *node[T] {
	decoded, err := url.PathUnescape(seg)
	if err != nil {
		// ServeMux takes such a segment as it is written.
		decoded = seg
	}
	next := n.literals[decoded]
	if next == nil {
		next = &node[T]{}
		if n.literals == nil {
			n.literals = map[string]*node[T]{}
		}
		n.literals[decoded] = next
	}
	return next
}

// match finds the pattern for the part of a path that lies below n; with
// slash, for that part with a slash put behind it, which must not end in
// one itself. Where several fit, a literal goes before a wildcard and that
// before a multi-segment one. A choice that leads nowhere is taken back,
// so that "/a/b/c" finds "/a/{x}/c" beside "/a/b/z". Each node is visited
// at most once.
func (n *node[T]) match(path string, slash bool) match[T] {
	if path == "" && slash {
		path, slash = "/", false
	}
	switch path {
	case "":
		return match[T]{n.end, true}
	case "/":
		if n.slash != nil {
			return match[T]{n.slash, true}
		}
		return match[T]{n.rest, true}
	}
	seg, below := cut(path)
	if next := n.literals[seg]; next != nil {
		if found := next.match(below, slash); found.leaf != nil {
			return found
		}
	}
	if n.wildcard != nil && isName(seg) {
		if found := n.wildcard.match(below, slash); found.leaf != nil {
			return found
		}
	}
	if n.rest != nil && isClean(path) {
		return match[T]{n.rest, false}
	}
	return match[T]{}
}

// cut splits the first segment off a path that begins with a slash.
func cut(path string) (seg, below string) {
	path = path[1:]
	if end := strings.IndexByte(path, '/'); end >= 0 {
		return path[:end], path[end:]
	}
	return path, ""
}

// isName reports whether a segment is one that ServeMux leaves in a path
// as it is.
func isName(seg string) bool {
	return seg != "" && seg != "." && seg != ".."
}

// isClean reports whether ServeMux leaves the whole path as it is: all
// its segments are names, but for the empty one behind the last slash.
func isClean(path string) bool {
	for path != "" && path != "/" {
		var seg string
		seg, path = cut(path)
		if !isName(seg) {
			return false
		}
	}
	return true
}
