package route_test

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/route"
)

// isAlias is the model of the rule: a path that matches a pattern is refused if
// a lenient server could serve it with a more specific one.
func isAlias(patterns []string, matched, method, path string) bool {
	for _, other := range patterns {
		if matched != "" && narrows(other, matched) && !narrows(matched, other) && servesLeniently(other, method, path) {
			return true
		}
	}
	return false
}

// servesLeniently tells whether a server as Express would serve a path with a
// pattern: it ignores case, and one slash at the end.
func servesLeniently(pattern, method, path string) bool {
	own, route, _ := strings.Cut(pattern, " ")
	if own != method && own != "*" && (own != http.MethodGet || method != http.MethodHead) {
		return false
	}
	expression := "(?i)^"
	segments, below := lenientSegments(route)
	for _, segment := range segments {
		if segment == "" {
			segment = "[^/]+"
		} else {
			segment = regexp.QuoteMeta(segment)
		}
		expression += "/" + segment
	}
	if below {
		expression += "(/.*)?"
	}
	return regexp.MustCompile(expression + "[/. ]*$").MatchString(path)
}

// narrows tells whether a lenient server serves each path of one pattern with
// the other one too. Methods are compared by servesLeniently.
func narrows(one, other string) bool {
	any := strings.HasPrefix(one, "*") || strings.HasPrefix(other, "*")
	if !any && strings.HasPrefix(one, "POST") != strings.HasPrefix(other, "POST") {
		return false
	}
	_, one, _ = strings.Cut(one, " ")
	_, other, _ = strings.Cut(other, " ")
	from, fromBelow := lenientSegments(one)
	to, toBelow := lenientSegments(other)
	if len(from) < len(to) || !toBelow && (fromBelow || len(from) > len(to)) {
		return false
	}
	for i, segment := range to {
		if segment != "" && segment != from[i] {
			return false
		}
	}
	return true
}

// lenientSegments returns the segments of a pattern in lower case, "" for a
// wildcard, and whether the pattern has all paths below them.
func lenientSegments(path string) (segments []string, below bool) {
	path, ended := strings.CutSuffix(path, "/{$}")
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if segment == "" || strings.HasSuffix(segment, "...}") {
			below = !ended
			continue
		}
		if strings.HasPrefix(segment, "{") {
			segment = ""
		}
		plain, _ := url.PathUnescape(segment)
		segments = append(segments, strings.ToLower(plain))
	}
	return segments, below
}

// Threat: a server that ignores case and a slash at the end serves a path with
// another pattern than the gate counts, and the other one costs more or needs
// another ability. Expectation: such a path has no pattern, and each other path
// has its own.
func TestPathOfAMoreSpecificPattern(t *testing.T) {
	t.Parallel()
	const export, order = "GET /orders/export", "GET /orders/{id}"
	table := newTable(t, export, order, "PUT /orders/{id}", "GET /orders/{id}/lines", "GET /files/{path...}", "GET /files/index", "GET /files/{name}/meta",
		"GET /tree/", "GET /tree/a/{$}", "HEAD /heads/all", "GET /heads/{id}", "GET /CAPITAL/{x}", "GET /capital/{y}/z", "GET /caf%C3%A9", "GET /{any}", "GET /deep/", "GET /DEEP/{x}/",
		"* /all/{path...}", "PUT /all/{id}/items", "* /all/{id}/state")
	for request, want := range map[string]string{
		"GET /orders/export": export, "GET /orders/7": order, "GET /orders/exports": order, "PUT /orders/EXPORT": "PUT /orders/{id}",
		"GET /orders/EXPORT": "", "HEAD /orders/Export": "", "GET /orders/%45xport": "", "GET /orders/export/": "",
		"GET /orders/7/LINES": "", "GET /ORDERS/export": "", "GET /orders/EXPORT/lines": "GET /orders/{id}/lines",
		"GET /files/a/b": "GET /files/{path...}", "GET /orders/export.": "", "GET /orders/export%20.": "", "GET /orders/7.": order, "GET /files/Index": "", "GET /files/index/": "", "GET /files/INDEX/x": "GET /files/{path...}",
		"GET /files/x/META": "", "GET /files/x/meta": "GET /files/{name}/meta", "GET /files/x/y/META": "GET /files/{path...}",
		"GET /tree/b": "GET /tree/", "GET /tree/a": "", "GET /tree/A/": "", "GET /tree/a/": "GET /tree/a/{$}",
		"GET /heads/ALL": "GET /heads/{id}", "HEAD /heads/ALL": "", "HEAD /heads/7": "GET /heads/{id}",
		"GET /CAPITAL/x": "GET /CAPITAL/{x}", "GET /capital/x/z": "GET /capital/{y}/z",
		"GET /café": "GET /caf%C3%A9", "GET /CAFÉ": "", "GET /caf": "GET /{any}",
		"GET /all/7/ITEMS": "* /all/{path...}", "PUT /all/7/ITEMS": "", "HEAD /all/7/items/": "* /all/{path...}", "POST /all/7/state/": "", "put /all/7/items": "",
		"PUT /all/%23/items/": "", "PUT /all/a%3Bb/items/": "", "PUT /all/%23/items": "",
		"GET /deep/a": "", "GET /deep/": "GET /deep/", "GET /DEEP/a/b": "GET /DEEP/{x}/",
	} {
		method, target, _ := strings.Cut(request, " ")
		checked, err := newGuard(t).CheckTarget(method, target, mustParse(t, target))
		if err != nil {
			t.Fatalf("%s: %v", request, err)
		}
		got, ok, err := table.Find(method, &checked)
		if got == "" && errors.Is(err, route.ErrBadPath) {
			err = nil // refused in another way
		}
		if got != want || ok != (want != "") || err != nil {
			t.Errorf("%s: got %q, %v, want %q", request, got, err, want)
		}
	}
	checked := route.Target{Path: "/orders/EXPORT"}
	if _, _, err := table.Find(http.MethodGet, &checked); err != nil || table.Allow(&checked) != "" {
		t.Errorf("an alias has the methods %q (%v), want none: it is not found", table.Allow(&checked), err)
	}
}
