package route

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// node is a place in the tree of one method's patterns, reached by the
// segments on the way to it.
type node[T any] struct {
	literals []literal[T] // sorted by their segment
	wildcard *node[T]     // {name}
	end      *leaf[T]     // the pattern ends here
	slash    *leaf[T]     // it ends here with a slash: /{$}
	rest     *leaf[T]     // it takes all that follows: /{name...}, /
}

type leaf[T any] struct {
	value T
}

// literal is a node and the decoded segment that leads to it.
type literal[T any] struct {
	segment string
	node    *node[T]
}

// fewLiterals is up to how many literals are compared one by one, which
// is faster than a search as most differ in length.
const fewLiterals = 8

// find returns the node behind the literal that a path begins with, and
// what of the path lies below it, or nil. No literal has a slash in it.
func (n *node[T]) find(path string) (next *node[T], below string) {
	if len(n.literals) > fewLiterals {
		seg, below := cut(path)
		if i, found := n.search(seg); found {
			return n.literals[i].node, below
		}
		return nil, ""
	}
	for i := range n.literals {
		seg := n.literals[i].segment
		end := 1 + len(seg)
		if len(path) >= end && (len(path) == end || path[end] == '/') && path[1:end] == seg {
			return n.literals[i].node, path[end:]
		}
	}
	return nil, ""
}

func (n *node[T]) search(seg string) (int, bool) {
	return slices.BinarySearchFunc(n.literals, seg, func(l literal[T], seg string) int {
		return strings.Compare(l.segment, seg)
	})
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
	i, found := n.search(decoded)
	if !found {
		n.literals = slices.Insert(n.literals, i, literal[T]{decoded, &node[T]{}})
	}
	return n.literals[i].node
}

// match finds the pattern for the part of a path that lies below n, which
// begins with a slash or is empty; with slash, for that part with a slash
// put behind it, which must not end in one itself. Where several fit, a
// literal goes before a wildcard and that before a multi-segment one. A
// choice that leads nowhere is taken back, so that "/a/b/c" finds
// "/a/{x}/c" beside "/a/b/z". Each node is visited at most once.
func (n *node[T]) match(path string, slash bool) match[T] {
	for {
		if path == "" && slash {
			path, slash = "/", false
		}
		if len(path) <= 1 {
			return n.last(path)
		}
		next, below := n.find(path)
		// Most nodes leave no choice that could be taken back.
		switch {
		case n.rest != nil || next != nil && n.wildcard != nil:
			return n.choose(next, path, slash)
		case next == nil:
			var seg string
			if seg, below = cut(path); n.wildcard == nil || !isName(seg) {
				return match[T]{}
			}
			next = n.wildcard
		}
		n, path = next, below
	}
}

// walk finds the pattern for a path by what goes before everything else,
// or nil where that leads nowhere or the path has more than ordinary bytes:
// then match may still find one.
func (n *node[T]) walk(path string) *leaf[T] {
	for path != "" {
		var next *node[T]
		var below string
		if len(n.literals) > 0 {
			next, below = n.find(path)
		}
		if next == nil {
			end := ordinaryEnd(path)
			if n.wildcard == nil || end == 0 {
				return nil
			}
			next, below = n.wildcard, path[end:]
		}
		n, path = next, below
	}
	return n.end
}

// ordinaryEnd is where the first segment of a path ends, or 0 if it is empty,
// begins with a dot or has a byte that means anything to anybody.
func ordinaryEnd(path string) int {
	for end := 1; end < len(path); end++ {
		switch b := path[end]; {
		case ordinary[b]:
		case b == '.' && end > 1:
		case b == '/' && end > 1:
			return end
		default:
			return 0
		}
	}
	if len(path) < len("/x") {
		return 0
	}
	return len(path)
}

// ordinary are the bytes that mean nothing to anybody: letters, digits and
// the marks of RFC 3986, 3.3, but for ';' and '%', which do.
var ordinary = func() (ordinary [256]bool) {
	for b := range byte(utf8.RuneSelf) {
		ordinary[b] = isPlain(b) || strings.IndexByte("-_~!$&'()*+,=:@", b) >= 0
	}
	return ordinary
}()

// last finds the pattern that ends at n, or with a slash behind it.
func (n *node[T]) last(path string) match[T] {
	switch {
	case path == "":
		return match[T]{n.end, true}
	case n.slash != nil:
		return match[T]{n.slash, true}
	default:
		return match[T]{n.rest, true}
	}
}

// choose tries what fits a path at n, in its order: the literal for its
// first segment, which may be nil, and the wildcards.
func (n *node[T]) choose(literal *node[T], path string, slash bool) match[T] {
	seg, below := cut(path)
	if literal != nil {
		if found := literal.match(below, slash); found.leaf != nil {
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
	// Segments are short: a search that is called takes longer.
	for end := 1; end < len(path); end++ {
		if path[end] == '/' {
			return path[1:end], path[end:]
		}
	}
	return path[1:], ""
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
