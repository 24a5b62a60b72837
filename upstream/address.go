package main

import (
	"net/url"
	"strings"
)

// publicURL returns the URL of the site from its address as the Caddyfile
// has it. One without a scheme is served over HTTPS, unless it has port
// 80, or has no host name that a certificate could be for. Of several
// addresses it is the first.
func publicURL(address string) (*url.URL, error) {
	first, _, _ := strings.Cut(address, ",")
	first = strings.TrimSpace(first)
	switch {
	case strings.Contains(first, "://"):
	case strings.HasPrefix(first, ":"):
		first = "http://localhost" + first
	case strings.HasSuffix(first, ":80"):
		first = "http://" + first
	default:
		first = "https://" + first
	}
	u, err := url.Parse(first)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, misuse("--address %q is not of the form http://host", address)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}
