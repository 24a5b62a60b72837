package web

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// usageStatus is the first line of My usage: what is used up, else what nearly
// is.
type usageStatus struct {
	// Kind is ok, near or over.
	Kind, Text string
	// Resets is when the first limit that is used up has room again. It is nil
	// without one. Countdown is the time left, or empty if more than a day is
	// left.
	Resets    *moment
	Countdown string
}

// newStatus returns the status of the limits of an account with a number of
// endpoints. The limits are sorted, the worst first.
func newStatus(bars []meter, endpoints int) usageStatus {
	full, near := namesOf(bars, "full"), namesOf(bars, "near")
	status := usageStatus{Kind: "ok", Text: "All endpoints have calls left."}
	state := "near"
	switch {
	case len(full) > 0:
		status.Kind, state = "over", "full"
		status.Text = countOf(full, endpoints) + " used up: " + strings.Join(full, ", ") + "."
	case len(near) > 0:
		status.Kind = "near"
		status.Text = countOf(near, endpoints) + " almost used up: " + strings.Join(near, ", ") + "."
	default:
		return status.closed(bars, endpoints)
	}
	for _, m := range bars {
		if m.State == state && m.Resets != nil && (status.Resets == nil || m.Resets.Exact < status.Resets.Exact) {
			status.Resets, status.Countdown = m.Resets, m.Countdown
		}
	}
	return status
}

// closed returns the status if limits of the account are 0. They do not reset.
func (s usageStatus) closed(bars []meter, endpoints int) usageStatus {
	names := namesOf(slices.DeleteFunc(slices.Clone(bars), func(m meter) bool { return m.Key != "" }), "closed")
	if len(names) == 0 {
		return s
	}
	s.Kind, s.Text = "near", countOf(names, endpoints)+" closed: "+strings.Join(names, ", ")+"."
	return s
}

// namesOf returns the names of the limits in a state: each once, and those of
// keys with their key.
func namesOf(bars []meter, state string) (names []string) {
	seen := map[string]bool{}
	for _, m := range bars {
		name := m.Name
		if m.Key != "" {
			name += " with key " + m.Key
		}
		if m.State == state && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// countOf returns a number of limits in words. Only endpoints are a part of all
// endpoints.
func countOf(names []string, endpoints int) string {
	for _, name := range names {
		if name == covers(api.All) || strings.Contains(name, " with key ") {
			return plural(len(names), "limit")
		}
	}
	return strconv.Itoa(len(names)) + " of " + plural(endpoints, "endpoint")
}
