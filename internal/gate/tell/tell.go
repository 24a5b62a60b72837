// Package tell finds in an answer what a call costs.
package tell

import (
	"errors"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"

	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// MaxCost is the highest cost that an answer can tell. Sums of thousands of these
// are still exact in every store.
const MaxCost = 1_000_000_000_000

// Header returns the cost that the values of a header tell: one number. Without a
// scale it is a whole number.
func Header(values []string, scale *apd.Decimal) (cost int64, told bool) {
	if len(values) != 1 {
		return 0, false
	}
	if scale == nil {
		n, err := strconv.ParseUint(values[0], 10, 64)
		return int64(n), err == nil && n <= MaxCost
	}
	n, err := decimal(values[0])
	if err != nil {
		return 0, false
	}
	return scaled(&n, scale)
}

// Scanner finds the numbers of members in the body of an answer while that passes:
// in a JSON document, in JSON lines, in a list of objects, or in the data of the
// events of a text/event-stream (WHATWG HTML, 9.2.6). It has bounded memory. Of a
// member that is there several times, the last number counts. Names that are
// written with escapes are not found.
type Scanner struct {
	document
	stream
	*Members
	parts []part
	isOne bool // the body is one document, by its type
}

// Members are the members that tell a cost.
type Members struct {
	members []member
	size    int // parts of the sum
	scale   *apd.Decimal
}

// member is one that can tell a part of the sum.
type member struct {
	names  []string
	needle []byte // a part of the last name
	part   int
}

type part struct {
	number apd.Decimal
	told   int // how many documents have told it
	by     int // which one was the last
}

// NewMembers returns the members of a, for all answers of an endpoint.
func NewMembers(a *policy.CostAnswer) *Members {
	m := &Members{size: len(a.Members), scale: a.Scale}
	for part, text := range a.Members {
		for dotted := range strings.SplitSeq(text, "|") {
			names := strings.Split(dotted, ".")
			m.members = append(m.members, member{names, needle(names[len(names)-1]), part})
		}
	}
	return m
}

// Scanner returns a scanner for the body of an answer with these headers. It is nil
// if the body is encoded, or may be what the client has chosen: another text, or a
// part of the JSON.
func (m *Members) Scanner(h http.Header) *Scanner {
	mediaType, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	events, encoding := mediaType == "text/event-stream", h.Get("Content-Encoding")
	if !events && !strings.Contains(mediaType, "json") || encoding != "" && !strings.EqualFold(encoding, "identity") || h["Content-Range"] != nil {
		return nil
	}
	s := &Scanner{Members: m, parts: make([]part, m.size)}
	s.events, s.lines = events, mediaType == "application/x-ndjson"
	s.isOne = mediaType == "application/json" || strings.HasSuffix(mediaType, "+json") && mediaType != "application/stream+json"
	return s
}

// maxPiece is how much of the body is read at once. It bounds what looking ahead
// costs.
const maxPiece = 4 << 10

// Read reads a piece of the body.
func (s *Scanner) Read(p []byte) {
	for piece := range slices.Chunk(p, maxPiece) {
		if s.events || s.lines {
			s.readStream(piece)
		} else {
			s.read(piece)
		}
	}
}

// Cost returns the sum of the parts: of those that were there if the answer is
// whole, else of all. A stream that is cut off tells only what one document told,
// and not the first: others count what the service has made so far.
func (s *Scanner) Cost(whole bool) (cost int64, told bool) {
	if s == nil {
		return 0, false
	}
	if whole {
		s.endNumber() // otherwise it can have more digits
	}
	var sum apd.Decimal
	isStream := !s.isOne || s.list
	for i := range s.parts {
		p := &s.parts[i]
		switch {
		case whole && p.told > 0, p.told == 1 && (p.by > 0 || !isStream):
			if _, err := exact.Add(&sum, &sum, &p.number); err != nil {
				return 0, false
			}
			told = true
		case !whole:
			return 0, false
		}
	}
	if !told {
		return 0, false
	}
	return scaled(&sum, s.scale)
}

// exact has more digits than two numbers of maxNumber bytes and a scale need.
var (
	exact = apd.BaseContext.WithPrecision(200)
	one   = apd.New(1, 0)
)

var errNumber = errors.New("no number of a cost")

// decimal reads a number from 0.
func decimal(text string) (n apd.Decimal, err error) {
	if len(text) > maxNumber || strings.Trim(text, "0123456789.eE+-") != "" {
		return n, errNumber
	}
	if _, _, err = n.SetString(text); err != nil {
		return n, err
	}
	if n.Negative && !n.IsZero() || n.Exponent < -maxNumber || n.Exponent > maxNumber {
		return n, errNumber
	}
	return n, nil
}

// Reservation returns what a call reserves that tells at most a number before the
// scale, nil for 1.
func Reservation(most int64, scale *apd.Decimal) int64 {
	if cost, told := scaled(apd.New(most, 0), scale); told {
		return cost
	}
	return MaxCost // an answer cannot tell more
}

// scaled multiplies a number with a scale, nil for 1, and rounds it up.
func scaled(n, scale *apd.Decimal) (cost int64, told bool) {
	var product, whole apd.Decimal
	if scale == nil {
		scale = one
	}
	if _, err := exact.Mul(&product, n, scale); err != nil {
		return 0, false
	}
	if _, err := exact.Ceil(&whole, &product); err != nil {
		return 0, false
	}
	cost, err := whole.Int64()
	return cost, err == nil && cost <= MaxCost
}
