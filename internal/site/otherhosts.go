package site

import (
	"os"
	"slices"
	"strings"
)

// otherHostsVariable is the setting with the addresses of the last site of the
// shipped Caddyfiles: it answers for hosts that no other site has. Otherwise
// Caddy answers 200, and logs all headers.
const otherHostsVariable = "TOLLGATE_OTHER_HOSTS"

// SetOtherHosts sets it for a Caddyfile, which cannot take the host out of an
// address by itself.
func SetOtherHosts() {
	if address := os.Getenv("TOLLGATE_ADDRESS"); address != "" && os.Getenv(otherHostsVariable) == "" {
		_ = os.Setenv(otherHostsVariable, otherHosts(address)) // these names and values are valid
	}
}

// otherHosts returns the addresses of a site without their hosts. One that has no
// host is a site for all hosts already, and Caddy refuses a second one. If there
// is no other, the site gets a host that is not asked for.
func otherHosts(addresses string) string {
	var own, others, nowhere []string
	for _, address := range strings.FieldsFunc(addresses, func(c rune) bool { return c == ',' || c == ' ' }) {
		scheme, host, found := strings.Cut(address, "://")
		if !found {
			scheme, host = "https", scheme
		}
		port := ""
		if at := strings.LastIndex(host, ":"); at > strings.LastIndex(host, "]") {
			host, port = host[:at], host[at:]
		}
		if !found && (port == ":80" || host == "" && port != ":443") {
			scheme = "http"
		}
		if other := scheme + "://" + port; host == "" {
			own, nowhere = append(own, other), []string{scheme + "://other-hosts.internal" + port}
		} else if !slices.Contains(others, other) {
			others = append(others, other)
		}
	}
	others = slices.DeleteFunc(others, func(other string) bool { return slices.Contains(own, other) })
	if len(others) == 0 {
		others = nowhere
	}
	return strings.Join(others, ", ")
}
