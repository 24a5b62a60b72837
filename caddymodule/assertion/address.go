package assertion

import (
	"errors"
	"net/url"
	"path"
	"strings"

	"golang.org/x/net/idna"
)

// ErrAddress is for an address that is not one of a site.
var ErrAddress = errors.New("an address is of the form http://host or https://host")

// PublicURL returns the URL of a site from its address as a Caddyfile
// has it. One without a scheme is served over HTTPS, unless it has port
// 80, or has no host name that a certificate could be for. Of several
// addresses it is the first. The error is ErrAddress.
func PublicURL(address string) (*url.URL, error) {
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
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" ||
		strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" || u.User != nil {
		return nil, ErrAddress
	}
	host, err := idna.ToASCII(strings.ToLower(u.Hostname())) // as clients send it
	if err != nil {
		return nil, ErrAddress
	}
	return &url.URL{Scheme: u.Scheme, Host: strings.Replace(u.Host, u.Hostname(), host, 1)}, nil
}

// Hosts returns which hosts clients can ask for at an address of the
// Caddyfile. At several addresses these are the hosts of all, and a label
// "*" is any one label, as in Caddy. An address such as ":8080" has no
// host, so there clients can ask for any.
func Hosts(address string) (accepts func(host string) bool, err error) {
	var hosts []string
	for one := range strings.SplitSeq(address, ",") {
		if strings.HasPrefix(strings.TrimSpace(one), ":") {
			return func(string) bool { return true }, nil
		}
		u, err := PublicURL(one)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, u.Hostname())
	}
	return func(host string) bool {
		for _, pattern := range hosts {
			if host == pattern || matchLabels(pattern, host) {
				return true
			}
		}
		return false
	}, nil
}

// matchLabels compares label by label. path.Match has the same rule for
// the parts of a path.
func matchLabels(pattern, host string) bool {
	if !strings.Contains(pattern, "*") {
		return false
	}
	matches, err := path.Match(strings.ReplaceAll(pattern, ".", "/"), strings.ReplaceAll(host, ".", "/"))
	return matches && err == nil
}
