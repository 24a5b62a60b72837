package api

import (
	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/upstream/rates"
)

// number is a decimal in an answer: a JSON number in plain notation, every
// digit of it meant.
type number struct{ rates.Decimal }

// Schema describes the number to readers of the document. There is no
// format: "double" would invite them to lose digits.
func (number) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeNumber}
}

// MarshalJSONTo writes the number.
func (n number) MarshalJSONTo(encoder *jsontext.Encoder) error {
	return encoder.WriteValue(n.Append(encoder.AvailableBuffer()))
}

// rateTable is a table of rates by code, written as an object whose members
// keep the order of the table.
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
