package policy

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CORSConfig lets pages of other origins call endpoints, usage and logins
// below a guard from a browser (CORS, in the Fetch standard). Without it,
// the service's own CORS headers go to clients unchanged.
type CORSConfig struct {
	// Origins lists the origins, each as browsers send it, for example
	// "https://app.example.com". "*" alone allows all. Browsers get no
	// permission to send cookies. Required.
	Origins []string `json:"origins,omitempty"`

	// MaxAge is how long a browser may remember what is allowed, at most a
	// day. Default 10m.
	MaxAge Duration `json:"max_age,omitempty"`
}

// CORS says which pages of other origins may call the API.
type CORS struct {
	// MaxAge is how long a browser may remember it, in seconds.
	MaxAge string

	any     bool
	origins []string
}

// Allow returns the value of Access-Control-Allow-Origin for an origin, or ""
// if it is not allowed.
func (c *CORS) Allow(origin string) string {
	switch {
	case origin == "":
		return ""
	case c.any:
		return "*"
	case slices.Contains(c.origins, origin):
		return origin
	}
	return ""
}

// The default and the maximum of CORSConfig.MaxAge.
const (
	defaultMaxAge = 10 * time.Minute
	maxMaxAge     = 24 * time.Hour
)

func newCORS(c *CORSConfig) (*CORS, error) {
	if c == nil {
		return nil, nil
	}
	var errs []error
	if len(c.Origins) == 0 {
		errs = append(errs, mistake("cors", "no origin: write * to allow all"))
	}
	for i, origin := range c.Origins {
		switch err := checkOrigin(origin); {
		case origin == "*" && len(c.Origins) > 1:
			errs = append(errs, mistake("cors", "* allows all origins: write no other one"))
		case origin != "*" && err != nil:
			errs = append(errs, mistake("cors", "%q is not an origin: %w", origin, err))
		case slices.Contains(c.Origins[:i], origin):
			errs = append(errs, mistake("cors", "duplicate origin %q", origin))
		}
	}
	age := time.Duration(cmp.Or(c.MaxAge, Duration(defaultMaxAge)))
	if age < time.Second || age > maxMaxAge {
		errs = append(errs, mistake("cors max_age", "%s is not from 1s to %s", age, maxMaxAge))
	}
	return &CORS{
		MaxAge: strconv.FormatInt(int64(age/time.Second), 10), any: slices.Contains(c.Origins, "*"), origins: c.Origins,
	}, errors.Join(errs...)
}

// checkOrigin accepts an origin in the form that browsers send (RFC 6454,
// section 6.2): any other form would never be equal to theirs.
func checkOrigin(origin string) error {
	u, err := url.Parse(origin)
	switch {
	case err != nil || u.Scheme == "" || u.Host == "":
		return errors.New("write it as browsers send it, such as https://app.example.com")
	case strings.Contains(u.Host, ","):
		return errors.New("write spaces between origins, and no comma")
	case strings.Contains(u.Host, "*"):
		return errors.New("a part of it cannot be *: list each origin")
	case u.Scheme+"://"+u.Host != origin:
		return fmt.Errorf("write only scheme, host and port: %s://%s", u.Scheme, u.Host)
	case strings.ContainsFunc(origin, func(r rune) bool { return r > '~' || 'A' <= r && r <= 'Z' }):
		return errors.New("browsers send it in lower case, and a host in other scripts as xn--")
	case strings.HasSuffix(u.Host, ":") || u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80":
		return errors.New("browsers do not send the default port")
	}
	return nil
}
