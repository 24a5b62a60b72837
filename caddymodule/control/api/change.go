package api

import (
	"encoding/json"

	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Change is a member of a JSON Merge Patch (RFC 7396). The zero Change is a
// missing member, which changes nothing; its field needs the option omitzero.
// A nil Value is null.
type Change[T any] struct {
	Set   bool
	Value T
}

// To returns a change to a value.
func To[T any](value T) Change[T] { return Change[T]{Set: true, Value: value} }

// MarshalJSON writes the value.
func (c Change[T]) MarshalJSON() ([]byte, error) { return json.Marshal(c.Value) }

// UnmarshalJSONFrom reads a value. Unlike UnmarshalJSON, it keeps the options
// of the decoder, which refuses unknown members.
func (c *Change[T]) UnmarshalJSONFrom(decoder *jsontext.Decoder) error {
	c.Set = true
	return strict.UnmarshalDecode(decoder, &c.Value)
}
