package route

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Table maps methods and paths to values by patterns of [http.ServeMux].
// Syntax, precedence and conflicts of patterns are ServeMux's, and so is
// the outcome of every match, but for its redirects: a path that ServeMux
// would redirect from ("/tree" to "/tree/", "/a//b" to "/a/b") is no path
// of the table. A gate that followed a redirect would answer for another
// resource than it was asked for.
//
// The zero Table is empty and ready. Once all patterns are added it is
// safe for concurrent use.
type Table[T any] struct {
	// mux judges patterns as they are added and is never asked to match:
	// it takes whole requests and allocates for each wildcard.
	mux      http.ServeMux
	patterns []string
	methods  []tree[T] // sorted by method
}

// tree holds the patterns of one method.
type tree[T any] struct {
	method string
	root   node[T]
}

// Add puts a value under a method and a path pattern such as
// "/api/convert/{from}/{amount}/{to}". It refuses what ServeMux refuses,
// a pattern that conflicts with one before it, and what could never match
// a request that [Guard.CheckTarget] lets through.
func (t *Table[T]) Add(method, path string, value T) error {
	if err := checkPattern(method, path); err != nil {
		return fmt.Errorf("pattern %q: %w", method+" "+path, err)
	}
	pattern := method + " " + path
	if err := t.register(pattern); err != nil {
		return err
	}
	i, found := slices.BinarySearchFunc(t.methods, method, func(tree tree[T], method string) int {
		return strings.Compare(tree.method, method)
	})
	if !found {
		t.methods = slices.Insert(t.methods, i, tree[T]{method: method})
	}
	t.methods[i].root.add(path, value)
	t.patterns = append(t.patterns, pattern)
	return nil
}

// Match returns the value for a request's method and decoded path. HEAD
// counts as GET where it has no pattern of its own.
func (t *Table[T]) Match(method, path string) (value T, ok bool) {
	if path == "" {
		// What is sent for the empty path is "/".
		path = "/"
	}
	if path[0] != '/' {
		return value, false
	}
	found := t.lookup(method, path, false)
	if found.leaf == nil {
		return value, false
	}
	if !found.exact && path[len(path)-1] != '/' && t.lookup(method, path, true).exact {
		return value, false
	}
	return found.leaf.value, true
}

// MatchWritten is a short cut past [Guard.CheckTarget] and [Table.Match]
// for the requests that nearly all are: what it finds, both would have let
// through and found. Of all else it says nothing.
func (t *Table[T]) MatchWritten(method, requestURI string, u *url.URL) (value T, ok bool) {
	if u.RawPath != "" || u.Opaque != "" || u.Path == "" || u.Path[0] != '/' || !isWritten(u.Path, requestURI) {
		return value, false
	}
	for i := range t.methods {
		if t.methods[i].method != method {
			continue
		}
		if leaf := t.methods[i].root.walk(u.Path); leaf != nil {
			return leaf.value, true
		}
		break
	}
	return value, false
}

// Allow returns the methods that a decoded path has, as the value of an
// Allow header (RFC 9110, 10.2.1), and "" if it has none: the answer to
// a path without a match is 405 in the first case and 404 in the second.
func (t *Table[T]) Allow(path string) string {
	// HEAD is asked for by itself: a pattern of its own can stand in the
	// way of GET's.
	methods := []string{http.MethodHead}
	for i := range t.methods {
		methods = append(methods, t.methods[i].method)
	}
	slices.Sort(methods)
	return strings.Join(slices.DeleteFunc(slices.Compact(methods), func(method string) bool {
		_, ok := t.Match(method, path)
		return !ok
	}), ", ")
}

// lookup finds the pattern for a path, or for the path with a slash put
// behind it.
func (t *Table[T]) lookup(method, path string, slash bool) match[T] {
	for i := range t.methods {
		if t.methods[i].method == method {
			if found := t.methods[i].root.match(path, slash); found.leaf != nil {
				return found
			}
			break
		}
	}
	if method == http.MethodHead {
		return t.lookup(http.MethodGet, path, slash)
	}
	return match[T]{}
}

// register lets a ServeMux judge a pattern, and says what it says, but
// without its "registered at", which names lines of this program and not
// of the operator's configuration.
func (t *Table[T]) register(pattern string) error {
	if err := handle(&http.ServeMux{}, pattern); err != nil {
		return err
	}
	err := handle(&t.mux, pattern)
	if err == nil {
		return nil
	}
	for _, other := range t.patterns {
		var pair http.ServeMux
		if err := handle(&pair, other); err != nil {
			return fmt.Errorf("adding a pattern again: %w", err)
		}
		if conflict := handle(&pair, pattern); conflict != nil {
			_, explanation, _ := strings.Cut(conflict.Error(), "\n")
			return fmt.Errorf("pattern %q conflicts with %q: %s", pattern, other, explanation)
		}
	}
	return err
}

// handle registers a pattern and returns what ServeMux panics with.
func handle(mux *http.ServeMux, pattern string) (err error) {
	defer func() {
		if refusal := recover(); refusal != nil {
			err = fmt.Errorf("%v", refusal)
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return nil
}

// checkPattern refuses what ServeMux would take but no request can match
// here, and what it would read as something else than a path.
func checkPattern(method, path string) error {
	if method == "" {
		return errors.New("a method is missing")
	}
	for i := range len(method) {
		if b := method[i]; b-'A' >= 26 && b-'0' >= 10 && b != '-' && b != '_' {
			return fmt.Errorf("the method %q must be in capital letters", method)
		}
	}
	if method == http.MethodConnect || method == http.MethodTrace {
		return fmt.Errorf("the method: %w", ErrBadMethod)
	}
	if !strings.HasPrefix(path, "/") {
		return errors.New("the path must begin with a slash: patterns with a host are not supported")
	}
	if examine(path, true) != 0 {
		return fmt.Errorf("the path can match no request: %w", ErrBadPath)
	}
	return nil
}
