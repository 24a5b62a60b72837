package gate

import "strings"

// word tells what a part of a header's name says about the request.
type word uint8

// The words of headers by which some servers take another method, path or
// host than the one that was checked here.
const (
	// target is a part of a request that a header can replace.
	target word = 1 << iota
	// other says that a header is about another request than this one.
	other
	// alone is enough by itself.
	alone
)

// words are those of the headers that frameworks and proxies are known to
// trust, such as X-Original-URL, X-Rewrite-URL, X-Forwarded-Prefix,
// X-HTTP-Method-Override, X-Envoy-Original-Path, X-Auth-Request-Redirect
// and X-Waws-Unencoded-Url. Names have them in any combination.
var words = map[string]word{
	"Url": target, "Uri": target, "Path": target, "Prefix": target, "Context": target,
	"Route": target, "Redirect": target, "Method": target, "Host": target,

	"Forwarded": other, "Original": other, "Override": other, "Http": other, "Request": other,
	"Unencoded": other, "Replaced": other, "Matched": other, "Invoke": other, "Info": other,

	"Script": alone, "Rewrite": alone, "Rewritten": alone, "Subrequest": alone,
}

// isOverride recognises a header that asks for something else than the
// request line does. The name is canonical. A name is one if it has a
// target and says that this is of another request, or if it has nothing
// but a target: X-Original-URL and X-URL, but not X-Callback-URL.
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
		if part == "" {
			continue
		}
		found |= words[part]
		only = only && words[part] == target
	}
	return found&alone != 0 || found&target != 0 && (only || found&other != 0)
}
