package route

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// A guard or pattern in the syntax of another router would load and match its
// own characters: "guard /internal/*" would leave /internal/ open. So what
// other routers read as a wildcard, an option or an expression is refused,
// with the right spelling. What can be meant, such as /items:batch and
// /$count, is not.

// methods are those of the HTTP Method Registry
// (https://www.iana.org/assignments/http-methods), and QUERY of the draft
// httpbis-safe-method-w-body. CONNECT and TRACE are missing because they are
// never served, PRI because it is the preface of HTTP/2.
var methods = strings.Fields(`ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT COPY DELETE GET HEAD LABEL LINK LOCK MERGE
	MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE MOVE OPTIONS ORDERPATCH PATCH POST PROPFIND PROPPATCH PUT QUERY REBIND
	REPORT SEARCH UNBIND UNCHECKOUT UNLINK UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL`)

var (
	// wildcard matches a segment that is a wildcard of ServeMux.
	wildcard = regexp.MustCompile(`^\{([\pL_][\pL\p{Nd}_]*(\.\.\.)?|\$)\}$`)

	// foreign matches what another router does not read as text: wildcards,
	// such as *, :id, <id> and [id], and expressions, such as ^, (a|b), .+ and
	// $ at the end. A parenthesis is text behind a name, as in /items(1).
	foreign = regexp.MustCompile(`[*<>\[\]^|{}]|/[:(]|\(\.|\.\+|/\+$|/\.\.\.$|\$$`)

	// named has the name of another router's wildcard as a submatch.
	named = regexp.MustCompile(`<(?:\w+:)?([A-Za-z_]\w*)>|^\[+\.*([A-Za-z_]\w*)\]+$|\{[*.]*([A-Za-z_]\w*)|^[:*]+([A-Za-z_]\w*)`)

	// notPath matches what can be in front of a path: a host, or the mark of an
	// expression.
	notPath = regexp.MustCompile(`^(.*\.[A-Za-z]{2,}|.*:\d+|[*~^=]+)$`)

	// placeholder matches one of Caddy, which are not replaced here.
	placeholder = regexp.MustCompile(`\{(env|file|http|system)\.[^{}]*\}`)

	// rest matches another router's wildcard for the rest of the path.
	rest = regexp.MustCompile(`^[({<\[]*(\*+\w*[)}>\]]*$|\.\.\.|\.[*+]|\+$)|[:=<(](path[:}]|\.[*+]|\*\*)|^:\w+[*+]$`)
)

func checkMethod(method string) error {
	upper := strings.ToUpper(method)
	switch {
	case method == "":
		return errors.New("the method is missing")
	case upper == http.MethodConnect || upper == http.MethodTrace:
		return fmt.Errorf("the method: %w", ErrBadMethod)
	case !slices.Contains(methods, upper):
		return fmt.Errorf("%q is not a registered HTTP method: use one, such as GET, POST, PUT, PATCH or DELETE, or * for all", method)
	case method != upper:
		return fmt.Errorf("the method %q must be in capital letters: write %s", method, upper)
	}
	return nil
}

// checkPrefix refuses a guard that another router would read differently.
func checkPrefix(prefix string) error {
	if !strings.HasPrefix(prefix, "/") {
		return fmt.Errorf("guard %q must begin with a slash%s", prefix, advice(prefixOf(pathIn(prefix))))
	}
	if list, comma := strings.CutSuffix(prefix, ","); comma {
		return fmt.Errorf("guard %q ends with a comma, but guards have spaces between them%s", prefix, advice(prefixOf(list)))
	}
	if found := foreign.FindString(prefix); found != "" {
		return fmt.Errorf("guard %q has %q, but a guard is a prefix without wildcards, expressions and placeholders%s",
			prefix, strings.TrimPrefix(found, "/"), advice(prefixOf(prefix)))
	}
	return nil
}

// checkPath refuses the path of a pattern that another router would read
// differently.
func checkPath(path string) error {
	if !strings.HasPrefix(path, "/") {
		return fmt.Errorf("the path must begin with a slash: patterns with a host are not supported%s", advice(patternOf(pathIn(path))))
	}
	if found := placeholder.FindString(path); found != "" && !wildcard.MatchString(found) { // {file...} is a wildcard
		return fmt.Errorf("the placeholder %s is not replaced in patterns: in a Caddyfile, use {$NAME} for a variable of the environment", found)
	}
	if strings.ContainsAny(path, "?#") {
		return fmt.Errorf("the path cannot match any request: it has a query, a fragment or an optional part%s", advice(patternOf(path)))
	}
	found := foreignIn(path)
	if found == "" {
		return nil
	}
	spelling := fmt.Sprintf("%%%02X for the character itself", found[len(found)-1])
	if pattern := patternOf(path); pattern != "" {
		spelling = pattern + ", or " + spelling
	}
	return fmt.Errorf("%q is no wildcard of net/http.ServeMux%s", strings.TrimPrefix(found, "/"), advice(spelling))
}

func advice(spelling string) string {
	if spelling == "" {
		return ""
	}
	return ": write " + spelling
}

// foreignIn returns the first part of a path that is neither text nor a
// wildcard of ServeMux, or "".
func foreignIn(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if wildcard.MatchString(segment) {
			segments[i] = "wildcard"
		}
	}
	return foreign.FindString(strings.Join(segments, "/"))
}

// pathIn returns the path in a text that does not begin with a slash: a URL, a
// path behind a host or behind the mark of an expression.
func pathIn(text string) string {
	_, behind, isURL := strings.Cut(text, "://")
	if isURL {
		text = behind
	}
	host, path, _ := strings.Cut(text, "/")
	if isURL || host == "" || notPath.MatchString(host) {
		return "/" + path
	}
	return "/" + text
}

// prefixOf returns the part of a guard in front of what is not text, or "" if
// that is no guard.
func prefixOf(prefix string) string {
	if at := foreign.FindStringIndex(prefix); at != nil {
		slash := strings.TrimLeft(prefix[at[0]:at[1]], "/")
		prefix = prefix[:at[1]-len(slash)]
	}
	if scan(prefix, false) != 0 {
		return ""
	}
	return prefix
}

// patternOf returns a path in the syntax of ServeMux, or "" if that is not
// possible.
func patternOf(path string) string {
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		text := strings.TrimRight(segment, "($")
		switch {
		case wildcard.MatchString(segment):
		case foreignIn("/"+text) == "" && !strings.HasPrefix(segment, "("):
			segments[i] = text
		case i == len(segments)-1 && rest.MatchString(segment):
			segments[i] = "{" + nameIn(segment, "rest") + "...}"
		default:
			segments[i] = "{" + nameIn(segment, fmt.Sprintf("part%d", i)) + "}"
		}
	}
	path = strings.Join(segments, "/")
	if scan(path, true) != 0 || handle(&http.ServeMux{}, path) != nil {
		return ""
	}
	return path
}

// nameIn returns the name of another router's wildcard, or the fallback.
func nameIn(segment, fallback string) string {
	for i, name := range named.FindStringSubmatch(segment) {
		if i > 0 && name != "" {
			return name
		}
	}
	return fallback
}
