package caddymodule

import (
	"os"
	"slices"
	"strings"
)

// otherHostsVariable is the setting with the addresses of the last site of the
// shipped Caddyfiles: it answers for hosts that no other site has. Otherwise
// Caddy answers 200, and logs all headers.
const otherHostsVariable = "TOLLGATE_OTHER_HOSTS"

// setOtherHosts sets it for a Caddyfile, which cannot take the host out of an
// address by itself.
func setOtherHosts() {
	if address := os.Getenv("TOLLGATE_ADDRESS"); address != "" && os.Getenv(otherHostsVariable) == "" {
		_ = os.Setenv(otherHostsVariable, otherHosts(address)) // these names and values are valid
	}
}

// otherHosts returns the addresses of a site without their hosts. One that has no
// host is a site for all hosts already: it gets a host that is not asked for,
// because Caddy refuses a second site for all.
func otherHosts(address string) string {
	var others []string
	for one := range strings.SplitSeq(address, ",") {
		scheme, host, found := strings.Cut(strings.TrimSpace(one), "://")
		if !found {
			scheme, host = "https", scheme
			if strings.HasPrefix(host, ":") || strings.HasSuffix(host, ":80") {
				scheme = "http"
			}
		}
		port := ""
		if at := strings.LastIndex(host, ":"); at > strings.LastIndex(host, "]") {
			host, port = host[:at], host[at:]
		}
		other := scheme + "://" + port
		if host == "" {
			other = scheme + "://other-hosts.internal" + port
		}
		if !slices.Contains(others, other) {
			others = append(others, other)
		}
	}
	return strings.Join(others, ", ")
}
