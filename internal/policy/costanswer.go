package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/cockroachdb/apd/v3"
	"golang.org/x/net/http/httpguts"
)

const (
	// MaxReserve is the largest Reserve of a CostAnswerConfig.
	MaxReserve = 1_000_000_000
	// DefaultBoundBody is the default of CostBody with a Bound.
	DefaultBoundBody = 1 << 20

	maxMembers = 8  // of a CostAnswerConfig
	maxNames   = 8  // in a dotted member
	maxScale   = 10 // digits before or after the point
)

// CostAnswerConfig says how an answer tells what a call costs, and what the call
// takes from all limits before. The answer gives back what is left. If the call
// costs more, the difference counts too, even above a limit.
type CostAnswerConfig struct {
	// Header is the header, or a trailer that the service announces, with the cost:
	// a number from 0. Clients do not get it if its name begins with Tollgate-.
	Header string `json:"header,omitempty"`

	// Members lists the members of a JSON answer whose numbers add up to the cost,
	// in place of Header, such as "usage.input_tokens" and "usage.output_tokens". In
	// a stream of events or of JSON lines, the last number of each counts. Members
	// with "|" between them are one: the last number of them all counts. The service
	// is asked for an answer that is not compressed.
	Members []string `json:"members,omitempty"`

	// Scale multiplies the cost, and what Bound finds, and rounds up: 100 counts a
	// price in euros as cents. Default 1.
	Scale json.Number `json:"scale,omitempty"`

	// Reserve is what a call takes, from 1 to 1,000,000,000. The call costs as much
	// if the answer does not tell its cost, but nothing if its status is 4xx or 5xx.
	// With Bound, it is what counts for a missing member, and may be 0.
	Reserve int64 `json:"reserve"`

	// Bound makes a call take what a language model can cost at most for text: the
	// bytes of the JSON body, for each answer it asks for the largest of these members
	// of it, such as "max_tokens", and constants. Default: none.
	Bound []string `json:"bound,omitempty"`
}

// CostAnswer tells how an answer tells what a call costs.
type CostAnswer struct {
	// Header is in canonical form, "" with Members.
	Header string
	// Members are dotted names, several with "|" between them.
	Members []string
	// Scale multiplies the cost. It is nil for 1.
	Scale *apd.Decimal
	// Bound has the members of the body that bound the cost, nil for a fixed
	// reservation.
	Bound []string
}

// Source is what tells the cost, such as "the header X-Cost".
func (a *CostAnswer) Source() string {
	if a.Header != "" {
		return "the header " + a.Header
	}
	return strings.Join(a.Members, "+")
}

// compile checks the configuration. It returns nil for nil.
func (c *CostAnswerConfig) compile() (*CostAnswer, error) {
	if c == nil {
		return nil, nil
	}
	a := &CostAnswer{Header: http.CanonicalHeaderKey(c.Header), Members: c.Members, Bound: c.Bound}
	least := int64(1)
	if c.Bound != nil {
		least = 0
	}
	switch {
	case (c.Header == "") == (len(c.Members) == 0):
		return nil, errors.New("cost_answer requires header or members, one of them")
	case c.Header != "" && !httpguts.ValidHeaderFieldName(c.Header):
		return nil, fmt.Errorf("%q is not the name of a header", c.Header)
	case c.Reserve < least || c.Reserve > MaxReserve:
		return nil, fmt.Errorf("reserve %d is not from %d to %d", c.Reserve, least, MaxReserve)
	case c.Bound != nil && len(c.Bound) == 0:
		return nil, errors.New("bound has no member: name one, such as max_tokens")
	}
	members := strings.Split(strings.Join(c.Members, "|"), "|")
	if c.Header != "" {
		members = nil
	}
	for _, list := range [][]string{members, c.Bound} {
		if len(list) > maxMembers {
			return nil, fmt.Errorf("%d members: use at most %d", len(list), maxMembers)
		}
		for i, member := range list {
			if names := strings.Split(member, "."); len(names) > maxNames || slices.ContainsFunc(names, func(name string) bool { return !isMemberName(name) }) {
				return nil, fmt.Errorf("%q is not a member: write up to %d names of letters, digits, - or _ with a dot between them, such as usage.total_tokens", member, maxNames)
			}
			if slices.ContainsFunc(list[:i], func(other string) bool { return strings.EqualFold(other, member) }) {
				return nil, fmt.Errorf("duplicate member %q", member)
			}
		}
	}
	if err := checkBound(c.Bound); err != nil {
		return nil, err
	}
	if c.Scale == "" {
		return a, nil
	}
	text := c.Scale.String()
	whole, fraction, _ := strings.Cut(text, ".")
	scale, _, err := apd.NewFromString(text)
	if err != nil || strings.Trim(text, "0123456789.") != "" || len(whole) > maxScale || len(fraction) > maxScale || scale.Sign() <= 0 {
		return nil, fmt.Errorf("scale %q is not a number above 0 with up to %d digits before and behind the point", c.Scale, maxScale)
	}
	a.Scale = scale
	return a, nil
}

// checkBound checks that no service can take one name of these members for another
// one, as some do that ignore case, dashes and underscores: the gate would refuse each
// body with one of them.
func checkBound(members []string) error {
	written := map[string]string{}
	for _, member := range members {
		names := strings.Split(member, ".")
		for i := range names {
			path := strings.Join(names[:i+1], ".")
			folded := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(path))
			if other := written[folded]; other != "" && other != path {
				return fmt.Errorf("some services take %q for %q: name one of them", path, other)
			}
			written[folded] = path
		}
	}
	return nil
}

// isMemberName tells whether a name needs no escapes in JSON, and no other
// service could write it with some.
func isMemberName(name string) bool {
	return name != "" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}
