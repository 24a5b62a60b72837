package header

import "strings"

// word is the meaning of a part of a header's name.
type word uint8

// The meanings of parts of headers that override the method, path or host
// of a request on some servers.
const (
	// target is a part of a request that a header can override.
	target word = 1 << iota
	// other refers to another request than this one.
	other
	// alone makes a header an override by itself.
	alone
)

// words are parts of headers that known frameworks and proxies trust, such
// as X-Original-URL, X-Rewrite-URL, X-Forwarded-Prefix,
// X-HTTP-Method-Override, X-Envoy-Original-Path, X-Auth-Request-Redirect
// and X-Waws-Unencoded-Url. Names have them in any combination, also without
// dashes. Words without a meaning are those that run together with others, as
// in X-HTTP-DestinationURL and X-Forwarded-PathBase. No word begins with
// another one that is before it.
var words = []struct {
	text  string
	means word
}{
	{"url", target}, {"uri", target}, {"path", target}, {"prefix", target}, {"context", target},
	{"route", target}, {"redirect", target}, {"method", target}, {"host", target},

	{"forwarded", other}, {"original", other}, {"override", other}, {"http", other}, {"request", other}, {"proxy", other},
	{"unencoded", other}, {"replaced", other}, {"matched", other}, {"invoke", other}, {"info", other},

	{"script", alone}, {"rewritten", alone}, {"rewrite", alone}, {"subrequest", alone},

	{"destination", 0}, {"base", 0}, {"name", 0},
}

// meaning returns what a part of a name means: what all of its words mean
// together. A part with other text means nothing. targets tells that all words
// are targets.
func meaning(part string) (found word, targets bool) {
	targets = true
	for part != "" {
		known := false
		for _, w := range words {
			if n := len(w.text); len(part) >= n && part[0]|0x20 == w.text[0] && part[1:n] == w.text[1:] {
				found, targets, known, part = found|w.means, targets && w.means == target, true, part[n:]
				break
			}
		}
		if !known {
			return 0, false
		}
	}
	return found, targets
}

// isOverride recognises a header that overrides the request line. The name
// is canonical. It needs a target and a word for another request, or only
// targets: X-Original-URL and X-URL, but not X-Callback-URL.
func isOverride(name string) bool {
	switch name {
	case "Script-Name", "Path-Info": // of CGI
		return true
	case "Http2-Settings": // of an upgrade to HTTP/2, which is always removed
		return true
	}
	rest, isExtension := strings.CutPrefix(name, "X-")
	if !isExtension {
		return false
	}
	var found word
	only := true
	for part := range strings.SplitSeq(rest, "-") {
		means, targets := meaning(part)
		found |= means
		only = only && targets
	}
	return found&alone != 0 || found&target != 0 && (only || found&other != 0)
}
