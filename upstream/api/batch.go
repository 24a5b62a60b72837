package api

import (
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/rates"
)

const (
	// largestBatch is how many conversions one request may hold.
	largestBatch = 100
	// longestID is how many characters the id of an item may have.
	longestID = 64
)

// batchInput is the request of POST /api/convert/batch.
type batchInput struct {
	Body batchBody
}

// batchRequest is the body of that request.
type batchRequest struct {
	Conversions []batchItem `json:"conversions" minItems:"1" maxItems:"100" nullable:"false" doc:"The conversions to make."`
}

// batchItem is one conversion of a batch.
type batchItem struct {
	ID     *string     `json:"id" required:"false" maxLength:"64" example:"line-1" doc:"Comes back with the result, for the client to recognise it. It need not be unique."`
	From   batchText   `json:"from" doc:"The currency that the amount is in: three letters."`
	To     batchText   `json:"to" doc:"The currency to convert to: three letters."`
	Amount batchAmount `json:"amount" doc:"The amount, above zero, as a number or as a string: at most 15 digits before the point, 10 after it and 15 significant digits in all. A number may have an exponent (1e-7 is 0.0000001); a string is in plain notation. It comes back as a number in plain notation."`
	Date   *string     `json:"date" required:"false" format:"date" example:"2026-09-25" doc:"The day whose rate to use; without it the newest there is."`
}

// batchText is a string that must be there and must be a string.
type batchText struct {
	text  string
	given bool
}

// Schema describes a string.
func (batchText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Examples: []any{"EUR"}}
}

var errNoString = errors.New("want a string")

// UnmarshalJSONFrom reads a string. Without it, null would pass for "".
func (t *batchText) UnmarshalJSONFrom(decoder *jsontext.Decoder) error {
	if decoder.PeekKind() != '"' {
		return errNoString
	}
	token, err := decoder.ReadToken()
	if err != nil {
		return err
	}
	t.text, t.given = token.String(), true
	return nil
}

// batchAmount is a number or a string that must be there. It keeps the text
// as it was written: a float64 on the way would lose digits.
type batchAmount struct {
	batchText
	// number is set for a JSON number.
	number bool
}

// Schema describes a number or a string.
func (batchAmount) Schema(huma.Registry) *huma.Schema {
	above := 0.0
	return &huma.Schema{OneOf: []*huma.Schema{
		{Type: huma.TypeNumber, ExclusiveMinimum: &above, Examples: []any{100}},
		{Type: huma.TypeString, Pattern: amountPattern, Examples: []any{"19.99"}},
	}}
}

var errNoAmount = errors.New("want a number or a string")

// UnmarshalJSONFrom reads a number or a string.
func (a *batchAmount) UnmarshalJSONFrom(decoder *jsontext.Decoder) error {
	if decoder.PeekKind() != '0' {
		if err := a.batchText.UnmarshalJSONFrom(decoder); !errors.Is(err, errNoString) {
			return err
		}
		return errNoAmount
	}
	number, err := decoder.ReadValue()
	if err != nil {
		return err
	}
	a.text, a.given, a.number = string(number), true, true
	return nil
}

// readAmountNumber reads an amount that is a JSON number: 1e-7 is the same
// number as 0.0000001, and JavaScript writes it so by itself.
func readAmountNumber(text string) (rates.Decimal, *apierror.Error) {
	amount, err := rates.ParseAmountNumber(text)
	if err != nil {
		return amount, invalidAmountNumber(text)
	}
	return amount, nil
}

// batchAnswer is the answer to POST /api/convert/batch.
type batchAnswer struct {
	Count     int           `json:"count" doc:"How many conversions were asked for."`
	Succeeded int           `json:"succeeded" doc:"How many have a result."`
	Failed    int           `json:"failed" doc:"How many have an error."`
	Results   []batchResult `json:"results" nullable:"false" doc:"One result for each conversion, in their order."`
}

// problem is a refusal inside an answer.
type problem struct{ *apierror.Error }

// Schema describes it as every refusal.
func (problem) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Ref: schemaPrefix + schemaRefusal}
}

// batchResult is one of its two members.
type batchResult struct {
	success *batchSuccess
	failure *batchFailure
}

// batchSuccess is the result of a conversion that was made.
type batchSuccess struct {
	Index  int     `json:"index" doc:"The place of the conversion in the request, from 0."`
	ID     *string `json:"id" doc:"The id of the conversion in the request, or null."`
	Status int     `json:"status" enum:"200" doc:"The status that the conversion alone would have had."`
	Conversion
}

// batchFailure is the result of a conversion that was refused.
type batchFailure struct {
	Index  int     `json:"index" doc:"The place of the conversion in the request, from 0."`
	ID     *string `json:"id" doc:"The id of the conversion in the request, or null."`
	Status int     `json:"status" enum:"400,404" doc:"The status that the conversion alone would have had."`
	Error  problem `json:"error" doc:"The refusal that the conversion alone would have met."`
}

// Schema describes the choice.
func (batchResult) Schema(registry huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{
		schemaOf[batchSuccess](registry),
		schemaOf[batchFailure](registry),
	}}
}

// MarshalJSONTo writes the member that is set.
func (r batchResult) MarshalJSONTo(encoder *jsontext.Encoder) error {
	if r.success != nil {
		return json.MarshalEncode(encoder, r.success)
	}
	return json.MarshalEncode(encoder, r.failure)
}

// convertBatch answers POST /api/convert/batch. A body of another shape is
// refused as a whole; a conversion that cannot be made fails alone.
func (s *service) convertBatch(in *batchInput) (*batchAnswer, *apierror.Error) {
	request, refusal := decodeBatch(in.Body.text)
	if refusal != nil {
		return nil, refusal
	}
	m := s.moment()
	answer := &batchAnswer{Count: len(request.Conversions), Results: make([]batchResult, len(request.Conversions))}
	for i, item := range request.Conversions {
		converted, refusal := m.convertItem(&item)
		if refusal != nil {
			answer.Failed++
			answer.Results[i].failure = &batchFailure{i, item.ID, refusal.Status, problem{refusal}}
			continue
		}
		answer.Succeeded++
		answer.Results[i].success = &batchSuccess{i, item.ID, http.StatusOK, *converted}
	}
	return answer, nil
}

// convertItem makes one conversion. Without a date is not with an empty one.
func (m moment) convertItem(item *batchItem) (*Conversion, *apierror.Error) {
	input := convertInput{From: item.From.text, Amount: item.Amount.text, To: item.To.text}
	if item.Date != nil {
		if input.Date = *item.Date; input.Date == "" {
			return nil, invalidDate(input.Date)
		}
	}
	read := readAmount
	if item.Amount.number {
		read = readAmountNumber
	}
	return m.convert(&input, read)
}

// decodeBatch reads the body: one JSON value of RFC 8259, in UTF-8, no
// member twice, none unknown, nothing after it.
func decodeBatch(text []byte) (*batchRequest, *apierror.Error) {
	var request batchRequest
	if jsontext.Value(text).Kind() != '{' {
		return nil, invalidRequest("The body must be a JSON object with the member conversions.")
	}
	if err := json.Unmarshal(text, &request, json.RejectUnknownMembers(true)); err != nil {
		return nil, undecodable(err)
	}
	if n := len(request.Conversions); n < 1 || n > largestBatch {
		return nil, invalidRequest(fmt.Sprintf(
			"The member conversions must be a list of 1 to %d conversions, and has %d.", largestBatch, n))
	}
	for i, item := range request.Conversions {
		for _, member := range [...]struct {
			name  string
			given bool
		}{{"from", item.From.given}, {"to", item.To.given}, {"amount", item.Amount.given}} {
			if !member.given {
				return nil, invalidRequest(fmt.Sprintf("The member %s of /conversions/%d is missing.", member.name, i))
			}
		}
		if item.ID != nil && utf8.RuneCountInString(*item.ID) > longestID {
			return nil, invalidRequest(fmt.Sprintf(
				"The id of /conversions/%d is too long. At most %d characters are kept.", i, longestID))
		}
	}
	return &request, nil
}

// undecodable says where and why a body could not be read.
func undecodable(err error) *apierror.Error {
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.As(err, &semantic) && errors.Is(err, json.ErrUnknownName):
		return invalidRequest("The member " + quote(string(semantic.JSONPointer)) + " of the body is not known.")
	case errors.As(err, &semantic):
		return invalidRequest("The value " + quote(string(semantic.JSONPointer)) + " of the body has the wrong type.")
	case errors.As(err, &syntactic) && errors.Is(err, jsontext.ErrDuplicateName):
		return invalidRequest("The member " + quote(string(syntactic.JSONPointer)) + " of the body is given more than once.")
	case errors.As(err, &syntactic):
		return invalidRequest(fmt.Sprintf("The body is not valid JSON in UTF-8 at byte %d.", syntactic.ByteOffset))
	}
	return invalidRequest("The body is not valid JSON in UTF-8.")
}
