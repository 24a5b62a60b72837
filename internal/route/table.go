package route

import (
	"net/http"
	"slices"
	"strings"
)

// AnyMethod is the method of a pattern that takes all but CONNECT and TRACE. It
// takes no method with a small letter: a server that ignores case could read it
// as one that has a more specific pattern.
const AnyMethod = "*"

// Table maps methods and paths to values by patterns of [http.ServeMux].
// Syntax, precedence and conflicts of patterns are those of ServeMux, and
// so is the result of every match, but for redirects: a path that ServeMux
// would redirect ("/tree" to "/tree/", "/a//b" to "/a/b") has no match
// here. A gate that followed the redirect would check another resource
// than the client asked for.
//
// The zero Table is empty and ready. Once all patterns are added it is
// safe for concurrent use.
type Table[T comparable] struct {
	// mux checks patterns as they are added. It never matches a request:
	// it needs a whole request and allocates for each wildcard.
	mux      http.ServeMux
	patterns []pattern[T]
	methods  []tree[T]
}

// pattern is one that was added.
type pattern[T comparable] struct {
	text string
	*lenient
	leaf *leaf[T]
}

// tree has the patterns of one method.
type tree[T comparable] struct {
	method string
	root   node[T]
}

// treeOf returns the tree of a method. It adds a missing one.
func treeOf[T comparable](trees *[]tree[T], method string) *node[T] {
	i := slices.IndexFunc(*trees, func(t tree[T]) bool { return t.method == method })
	if i < 0 {
		i = len(*trees)
		*trees = append(*trees, tree[T]{method: method})
	}
	return &(*trees)[i].root
}

// Add puts a value under a method, or AnyMethod, and a path pattern such as
// "/api/convert/{from}/{amount}/{to}". It refuses a pattern that ServeMux
// refuses, one with a *Conflict, and one that cannot match any request that
// [Guard.CheckTarget] accepts.
func (t *Table[T]) Add(method, path string, value T) error {
	if err := checkPattern(method, path); err != nil {
		return err
	}
	text := method + " " + path
	if err := t.register(text); err != nil {
		return err
	}
	added := pattern[T]{text, newLenient(method, path), treeOf(&t.methods, method).add(path, value)}
	for _, other := range t.patterns {
		switch {
		case other.leaf.value == value: // no other value can be meant
		case added.narrows(other.lenient):
			other.leaf.narrow(added.lenient)
		case other.narrows(added.lenient):
			added.leaf.narrow(other.lenient)
		}
	}
	t.patterns = append(t.patterns, added)
	return nil
}

// Match returns the value for a request's method and decoded path. HEAD
// counts as GET where it has no pattern of its own.
func (t *Table[T]) Match(method, path string) (value T, ok bool) {
	if found := t.match(method, path); found != nil {
		return found.value, true
	}
	return value, false
}

// Find is Match for a target that [Guard.CheckTarget] has accepted. A target
// with special characters must match the same pattern in each way in which
// servers may read it. Below the guard, only a pattern that ends with
// {name...} takes them. Otherwise the error is [ErrBadPath], but a method that
// the path does not have is no error.
func (t *Table[T]) Find(method string, target *Target) (value T, ok bool, err error) {
	found := t.lookup(method, target.Path)
	if target.Special != "" && (target.Closed || found != nil) {
		target.readings = readings(target.Special)
		if target.readings == nil || !t.takes(method, target, found) && (found != nil || t.Allow(target) == "") {
			return value, false, ErrBadPath
		}
	}
	if found == nil {
		return value, false, nil
	}
	if target.alias = found.narrower != nil && found.isAlias(method, target.Path); target.alias {
		return value, false, nil
	}
	return found.value, true, nil
}

// takes reports whether a pattern takes a target in each of its readings.
func (t *Table[T]) takes(method string, target *Target, pattern *leaf[T]) bool {
	if pattern == nil || target.Special != "" && target.Closed && !pattern.named {
		return false
	}
	return !slices.ContainsFunc(target.readings, func(path string) bool { return t.match(method, path) != pattern })
}

// match returns the pattern of a method and a decoded path, or nil. A path that
// another server could serve with a more specific pattern has none.
func (t *Table[T]) match(method, path string) *leaf[T] {
	found := t.lookup(method, path)
	if found != nil && found.narrower != nil && found.isAlias(method, path) {
		return nil
	}
	return found
}

// lookup is match as ServeMux does it.
func (t *Table[T]) lookup(method, path string) *leaf[T] {
	if path == "" {
		path = "/" // what is sent for the empty path
	}
	if path[0] != '/' {
		return nil
	}
	found := t.in(method, path)
	// ServeMux redirects to a path with a slash at the end if that has a
	// better match.
	if found != nil && found.multi && path[len(path)-1] != '/' && t.in(method, path+"/") != found {
		return nil
	}
	return found
}

// in looks a path up in the trees of a method.
func (t *Table[T]) in(method, path string) *leaf[T] {
	for i := range t.methods {
		if t.methods[i].method != method {
			continue
		}
		if found := t.methods[i].root.match(path); found != nil {
			return found
		}
		break
	}
	switch {
	case method == http.MethodHead:
		return t.in(http.MethodGet, path)
	case method != AnyMethod && isAnyMethod(method):
		return t.in(AnyMethod, path)
	}
	return nil
}

// maxMethod is the longest method that AnyMethod takes. Registered ones are
// shorter.
const maxMethod = 24

// isAnyMethod reports whether AnyMethod takes a method.
func isAnyMethod(method string) bool {
	for i := range len(method) {
		if 'a' <= method[i] && method[i] <= 'z' {
			return false
		}
	}
	return len(method) <= maxMethod && method != http.MethodConnect && method != http.MethodTrace
}

// Allow returns the methods that a target has, as the value of an Allow header
// (RFC 9110, 10.2.1), and "" if it has none: a target without a match gets 405
// in the first case and 404 in the second. So does a target that Find refused as
// another spelling of a more specific pattern.
func (t *Table[T]) Allow(target *Target) string {
	if target.alias {
		return ""
	}
	// HEAD is checked by itself: its own pattern can hide that of GET.
	methods := []string{http.MethodHead}
	for i := range t.methods {
		if t.methods[i].method == AnyMethod {
			methods = append(methods, commonMethods...)
		} else {
			methods = append(methods, t.methods[i].method)
		}
	}
	slices.Sort(methods)
	return strings.Join(slices.DeleteFunc(slices.Compact(methods), func(method string) bool {
		return !t.takes(method, target, t.match(method, target.Path))
	}), ", ")
}

// commonMethods are what Allow lists for AnyMethod.
var commonMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}
