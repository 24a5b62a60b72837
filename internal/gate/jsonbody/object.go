// Package jsonbody reads what the gate needs of the JSON body of a request. It
// refuses a body that parsers could read differently: the gate would count another
// call than the service serves.
package jsonbody

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxNesting is the maximum depth of objects and arrays in a body. Parsers have
// different limits.
const MaxNesting = 64

// ErrUnclear is the error of a body that is JSON and has another form, or that
// parsers could read differently.
var ErrUnclear = errors.New("it is not clear what the body says")

// NewDecoder returns a decoder of a body. It refuses duplicate names and invalid
// UTF-8 at any depth.
func NewDecoder(body []byte) *jsontext.Decoder { return jsontext.NewDecoder(bytes.NewReader(body)) }

// End returns an error unless the body ends here.
func End(d *jsontext.Decoder) error {
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return ErrUnclear
	}
	return nil
}

// Elements returns the number of elements of an array that is a member of a body.
func Elements(body []byte, member string) (int64, error) {
	d, found := NewDecoder(body), int64(-1)
	unclear, err := ReadObject(d, Spellings(member), func(name string) error {
		counts := name == member && d.PeekKind() == '['
		length, err := Skip(d)
		if counts {
			found = length
		}
		return err
	})
	if err == nil {
		err = End(d)
	}
	if err == nil && (unclear || found < 0) {
		err = ErrUnclear
	}
	return found, err
}

// Spellings returns the names of members by what the most lenient parsers
// compare.
func Spellings(names ...string) map[string]string {
	all := map[string]string{}
	for _, name := range names {
		all[lenient.Replace(fold(name))] = name
	}
	return all
}

// ReadObject reads a JSON object. value reads the value of each member. The object
// is unclear if parsers could disagree which of its members have the names of
// known.
func ReadObject(d *jsontext.Decoder, known map[string]string, value func(name string) error) (unclear bool, err error) {
	if start, err := d.ReadToken(); err != nil || start.Kind() != '{' {
		return false, ErrUnclear
	}
	names := map[string]bool{}
	for d.PeekKind() != '}' {
		token, err := d.ReadToken()
		if err != nil {
			return false, err
		}
		name := token.String()
		folded := fold(name)
		exact, listed := known[lenient.Replace(folded)]
		// For some parsers, a name ends at a NUL.
		unclear = unclear || names[folded] || strings.ContainsRune(name, 0) || listed && name != exact
		names[folded] = true
		if err := value(name); err != nil {
			return false, err
		}
	}
	_, err = d.ReadToken()
	return unclear, err
}

// Skip reads a value. It returns the number of elements if the value is an array.
func Skip(d *jsontext.Decoder) (length int64, err error) { return skipTo(d, d.StackDepth()) }

// skipTo reads to the end of a value at a depth.
func skipTo(d *jsontext.Decoder, outer int) (length int64, err error) {
	for {
		if _, err := d.ReadToken(); err != nil {
			return 0, err
		}
		switch depth := d.StackDepth(); {
		case depth > MaxNesting:
			return 0, ErrUnclear
		case depth == outer:
			return length, nil
		}
		_, length = d.StackIndex(outer + 1)
	}
}

// lenient removes from a folded name what some parsers ignore: dashes and
// underscores, and whether an i has a dot.
var lenient = strings.NewReplacer("-", "", "_", "", "\u0130", "I", "\u0131", "I")

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
