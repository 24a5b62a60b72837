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
// and X-Waws-Unencoded-Url. Names have them in any combination.
var words = map[string]word{
	"Url": target, "Uri": target, "Path": target, "Prefix": target, "Context": target,
	"Route": target, "Redirect": target, "Method": target, "Host": target,

	"Forwarded": other, "Original": other, "Override": other, "Http": other, "Request": other,
	"Unencoded": other, "Replaced": other, "Matched": other, "Invoke": other, "Info": other,

	"Script": alone, "Rewrite": alone, "Rewritten": alone, "Subrequest": alone,
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
		if part == "" {
			continue
		}
		found |= words[part]
		only = only && words[part] == target
	}
	return found&alone != 0 || found&target != 0 && (only || found&other != 0)
}
