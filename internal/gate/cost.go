package gate

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/gate/request"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// maxNesting is the maximum depth of objects and arrays in a body.
// Parsers have different limits.
const maxNesting = 64

// readCost finds the cost of the call in its body. It reads the body only if
// each limit has room for at least 1. Then the call begins now, and token,
// address and plan are checked again: a client can send a body as slowly as it
// likes. Without this, it could save up calls of a pace and make them at once,
// or with a revoked key.
func (c *Call) readCost() *refusal.Refusal {
	c.cost = 1
	if err := c.readRooms(); err != nil {
		return c.gate.storeFailed(err, c.credential.IsIdentity(), c.logAttrs()...)
	}
	if slices.ContainsFunc(c.rooms, func(room store.Room) bool { return room.Remaining < c.cost }) {
		if f := c.exceeded(); f != nil {
			return f
		}
	}
	cost, fault := c.gate.bodyCost(c.request, c.endpoint)
	f := c.renew(false)
	if f == nil {
		f = c.checkAddress()
	}
	if f == nil {
		f = c.entitle()
	}
	if fault != nil && !c.unconfirmed {
		return fault
	}
	c.cost = cost
	return f
}

// bodyCost reads the cost from the body of a request, and restores the body.
func bodyCost(r *http.Request, e *policy.Endpoint) (int64, *refusal.Refusal) {
	if !apierror.IsJSON(r.Header) {
		return 0, refusal.CostType
	}
	if r.ContentLength > e.CostBody {
		return 0, refusal.CostBodySize(e.Name, e.CostBody)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, e.CostBody+1))
	if err != nil {
		request.Unread(r, body, err)
		return 0, request.BodyFault(err)
	}
	if int64(len(body)) > e.CostBody {
		request.Unread(r, body, nil)
		return 0, refusal.CostBodySize(e.Name, e.CostBody)
	}
	request.SetBody(r, body)
	cost, err := elements(body, e.CostMember)
	if err != nil {
		return 0, refusal.CostBody(e.CostMember, maxNesting)
	}
	return max(1, cost), nil
}

// lenient removes from a folded name what some parsers ignore: dashes and
// underscores, and whether an i has a dot.
var lenient = strings.NewReplacer("-", "", "_", "", "\u0130", "I", "\u0131", "I")

var errElements = errors.New("the number of elements is not clear")

// elements returns the number of elements of an array that is a member of the
// JSON object body. It refuses a body that parsers could read differently. The
// decoder refuses duplicate names and invalid UTF-8 at any depth.
func elements(body []byte, member string) (int64, error) {
	d := jsontext.NewDecoder(bytes.NewReader(body))
	if start, err := d.ReadToken(); err != nil || start.Kind() != '{' {
		return 0, errElements
	}
	found, names := int64(-1), map[string]bool{}
	for d.PeekKind() != '}' {
		token, err := d.ReadToken()
		if err != nil {
			return 0, err
		}
		name := token.String()
		folded := fold(name)
		// For some parsers, a name ends at a NUL.
		if names[folded] || strings.ContainsRune(name, 0) || name != member && lenient.Replace(folded) == lenient.Replace(fold(member)) {
			return 0, errElements
		}
		names[folded] = true
		counts := name == member && d.PeekKind() == '['
		length, err := skipValue(d)
		if err != nil {
			return 0, err
		}
		if counts {
			found = length
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return 0, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) || found < 0 {
		return 0, errElements
	}
	return found, nil
}

// skipValue reads the value of a member of the outermost object. It returns
// the number of elements if the value is an array.
func skipValue(d *jsontext.Decoder) (length int64, err error) {
	for {
		if _, err := d.ReadToken(); err != nil {
			return 0, err
		}
		switch depth := d.StackDepth(); {
		case depth > maxNesting:
			return 0, errElements
		case depth == 1:
			return length, nil
		}
		_, length = d.StackIndex(2)
	}
}

// fold returns the same text for names that differ in case only (simple case
// folding of Unicode). Some parsers ignore case.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				return next
			}
			r = next
		}
	}, name)
}
