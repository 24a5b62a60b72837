package api

import (
	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// number is a decimal in an answer: an exact JSON number in plain notation.
type number struct{ rates.Decimal }

// Schema describes the number without a format: "double" would lead clients
// to lose digits.
func (number) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeNumber}
}

// MarshalJSONTo writes the number.
func (n number) MarshalJSONTo(encoder *jsontext.Encoder) error {
	return encoder.WriteValue(n.Append(encoder.AvailableBuffer()))
}

// rateTable is a table of rates by code. It is written as an object in the
// order of the table.
type rateTable []rates.Quote

// Schema describes the table as an object of numbers.
func (rateTable) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type:                 huma.TypeObject,
		AdditionalProperties: &huma.Schema{Type: huma.TypeNumber},
	}
}

// MarshalJSONTo writes the object.
func (t rateTable) MarshalJSONTo(encoder *jsontext.Encoder) error {
	if err := encoder.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, quote := range t {
		if err := encoder.WriteToken(jsontext.String(string(quote.Code))); err != nil {
			return err
		}
		if err := encoder.WriteValue(quote.Rate.Append(encoder.AvailableBuffer())); err != nil {
			return err
		}
	}
	return encoder.WriteToken(jsontext.EndObject)
}
