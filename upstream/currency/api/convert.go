package api

import (
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

const (
	// largestBatch is the maximum number of conversions in a request.
	largestBatch = 100
	// longestID is the maximum length of an item's id in characters.
	longestID = 64
)

// batchInput is the request of POST /api/convert/batch.
type batchInput struct {
	Body batchBody
}

// batchBody is the body as sent: convertBatch decodes it.
type batchBody []byte

// Schema describes the decoded body.
func (batchBody) Schema(registry huma.Registry) *huma.Schema {
	return schemaOf[batchRequest](registry)
}

// batchRequest is the body of that request.
type batchRequest struct {
	Conversions []batchItem `json:"conversions" minItems:"1" maxItems:"100" nullable:"false" doc:"The conversions to make."`
}

// batchItem is one conversion of a batch.
type batchItem struct {
	ID     *string     `json:"id" required:"false" maxLength:"64" example:"line-1" doc:"Copied to the result, so that the client can match them. It need not be unique."`
	From   batchText   `json:"from" doc:"The currency that the amount is in: three letters."`
	To     batchText   `json:"to" doc:"The currency to convert to: three letters."`
	Amount batchAmount `json:"amount" doc:"The amount, above zero, as a number or as a string: at most 15 digits before the point, 10 after it and 15 significant digits in all. A number may have an exponent (1e-7 is 0.0000001), a string may not. The answer has it as a number in plain notation."`
	Date   *string     `json:"date" required:"false" format:"date" example:"2026-03-27" doc:"The day of the rate. Default: the newest day with a rate."`
}

// batchText is a required string.
type batchText struct {
	text  string
	given bool
}

// Schema describes a string.
func (batchText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Examples: []any{"EUR"}}
}

// JSONType names what UnmarshalJSONFrom reads.
func (batchText) JSONType() string { return "a string" }

// errType means that a value has another type.
var errType = errors.New("a value of another type")

// UnmarshalJSONFrom reads a string. Without it, null would mean "".
func (t *batchText) UnmarshalJSONFrom(decoder *jsontext.Decoder) error {
	if decoder.PeekKind() != '"' {
		return errType
	}
	token, err := decoder.ReadToken()
	if err != nil {
		return err
	}
	t.text, t.given = token.String(), true
	return nil
}

// batchAmount is a required number or string. It keeps the original text: a
// float64 would lose digits.
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

// JSONType names what UnmarshalJSONFrom reads.
func (batchAmount) JSONType() string { return "a number or a string" }

// UnmarshalJSONFrom reads a number or a string.
func (a *batchAmount) UnmarshalJSONFrom(decoder *jsontext.Decoder) error {
	if decoder.PeekKind() != '0' {
		return a.batchText.UnmarshalJSONFrom(decoder)
	}
	number, err := decoder.ReadValue()
	if err != nil {
		return err
	}
	a.text, a.given, a.number = string(number), true, true
	return nil
}

// readAmountNumber reads an amount that is a JSON number. It may have an
// exponent: JavaScript writes 0.0000001 as 1e-7.
func readAmountNumber(text string) (rates.Decimal, *apierror.Error) {
	amount, err := rates.ParseAmountNumber(text)
	if err != nil {
		return amount, invalidAmountNumber(text)
	}
	return amount, nil
}

// batchAnswer is the answer to POST /api/convert/batch.
type batchAnswer struct {
	Count     int           `json:"count" doc:"The number of conversions."`
	Succeeded int           `json:"succeeded" doc:"The number of conversions with a result."`
	Failed    int           `json:"failed" doc:"The number of conversions with an error."`
	Results   []batchResult `json:"results" nullable:"false" doc:"One result for each conversion, in their order."`
}

// problem is a refusal inside an answer.
type problem struct{ *apierror.Error }

// Schema refers to the schema of all refusals.
func (problem) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Ref: schemaPrefix + schemaRefusal}
}

// batchResult is the result of a conversion.
type batchResult = oneOf[batchSuccess, batchFailure]

// batchSuccess is the result of a successful conversion.
type batchSuccess struct {
	Index  int     `json:"index" doc:"The index of the conversion in the request, from 0."`
	ID     *string `json:"id" doc:"The id of the conversion in the request, or null."`
	Status int     `json:"status" enum:"200" doc:"The status that the conversion alone would have had."`
	Conversion
}

// batchFailure is the result of a refused conversion.
type batchFailure struct {
	Index  int     `json:"index" doc:"The index of the conversion in the request, from 0."`
	ID     *string `json:"id" doc:"The id of the conversion in the request, or null."`
	Status int     `json:"status" enum:"400,404" doc:"The status that the conversion alone would have had."`
	Error  problem `json:"error" doc:"The refusal that the conversion alone would have had."`
}

// convertBatch answers POST /api/convert/batch. An invalid body is refused as
// a whole. An invalid conversion fails alone.
func (s *service) convertBatch(in *batchInput) (*batchAnswer, *apierror.Error) {
	request, refusal := decodeBatch(in.Body)
	if refusal != nil {
		return nil, refusal
	}
	m := s.moment()
	answer := &batchAnswer{Count: len(request.Conversions), Results: make([]batchResult, len(request.Conversions))}
	for i, item := range request.Conversions {
		converted, refusal := m.convertItem(&item)
		if refusal != nil {
			answer.Failed++
			answer.Results[i].value = &batchFailure{i, item.ID, refusal.Status, problem{refusal}}
			continue
		}
		answer.Succeeded++
		answer.Results[i].value = &batchSuccess{i, item.ID, http.StatusOK, *converted}
	}
	return answer, nil
}

// convertItem makes one conversion. An empty date is invalid; a missing one
// is not.
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

// decodeBatch reads the body: one JSON object in UTF-8 without duplicate or
// unknown members and without trailing data.
func decodeBatch(text []byte) (*batchRequest, *apierror.Error) {
	var request batchRequest
	if jsontext.Value(text).Kind() != '{' {
		return nil, invalidRequest("The body must be a JSON object with the member \"conversions\".")
	}
	if err := apierror.Decode("the body", text, &request); err != nil {
		return nil, invalidRequest("The body is not valid: " + err.Error() + ".")
	}
	if n := len(request.Conversions); n < 1 || n > largestBatch {
		return nil, invalidRequest(fmt.Sprintf(
			"The member \"conversions\" has %d items. It must have 1 to %d.", n, largestBatch))
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
				"The id of /conversions/%d is too long. At most %d characters are allowed.", i, longestID))
		}
	}
	return &request, nil
}

// amountPattern matches an amount in plain notation.
const amountPattern = `^[0-9]{1,15}(\.[0-9]{1,10})?$`

// convertInput is the request of GET /api/convert/{from}/{amount}/{to}.
type convertInput struct {
	From   string `path:"from" pattern:"^[A-Za-z]{3}$" example:"EUR" doc:"The currency that the amount is in."`
	Amount string `path:"amount" pattern:"^[0-9]{1,15}(\\.[0-9]{1,10})?$" example:"100" doc:"The amount: above zero, at most 15 significant digits."`
	To     string `path:"to" pattern:"^[A-Za-z]{3}$" example:"USD" doc:"The currency to convert to."`
	Date   string `query:"date" format:"date" example:"2026-03-27" doc:"The day of the rate. Default: the newest day with a rate. For a day without rates, the newest day before it is used, at most 14 days back."`
	Source string `query:"source" default:"ECB,parity,indicative" doc:"The sources to use, separated by commas. Others are left out. A parity with a base of the ECB needs both."`
}

// Conversion is the answer to a conversion. It is exported because reflection
// ignores embedded structs with a private name.
type Conversion struct {
	From    currency.Code `json:"from" pattern:"^[A-Z]{3}$" doc:"The currency that was converted from."`
	To      currency.Code `json:"to" pattern:"^[A-Z]{3}$" doc:"The currency that was converted to."`
	Amount  number        `json:"amount" doc:"The amount that was converted."`
	Rate    number        `json:"rate" doc:"How many units of to one unit of from buys, to 12 significant digits, rounded half-even."`
	Result  number        `json:"result" doc:"amount × rate to 15 significant digits, rounded half-even."`
	Rounded number        `json:"rounded" doc:"amount × rate, rounded half-even to the minor unit of to. For currencies without a minor unit, such as gold, it is result."`
	Date    civil.Date    `json:"date" format:"date" doc:"The day that the rate is for."`
	Source  sources       `json:"source" doc:"The sources of the rate, the best first, joined by +."`
}

// convert answers GET /api/convert/{from}/{amount}/{to}.
func (s *service) convert(in *convertInput) (*Conversion, *apierror.Error) {
	m, refusal := s.momentFrom(in.Source)
	if refusal != nil {
		return nil, refusal
	}
	return m.convert(in, readAmount)
}

// convert makes one conversion, alone or of a batch; they differ in how the
// amount is read. It checks the syntax of all parts first.
func (m moment) convert(in *convertInput, read func(string) (rates.Decimal, *apierror.Error)) (*Conversion, *apierror.Error) {
	from, err := currency.Parse(in.From)
	if err != nil {
		return nil, invalidCurrency(in.From)
	}
	amount, refusal := read(in.Amount)
	if refusal != nil {
		return nil, refusal
	}
	to, err := currency.Parse(in.To)
	if err != nil {
		return nil, invalidCurrency(in.To)
	}
	on, refusal := m.rateDate(in.Date)
	if refusal != nil {
		return nil, refusal
	}
	day, refusal := m.day(on, from, to)
	if refusal != nil {
		return nil, refusal
	}
	c, err := day.Convert(from, to, amount)
	must(err)
	return &Conversion{
		From: from, To: to,
		Amount: number{amount}, Rate: number{c.Rate}, Result: number{c.Result}, Rounded: number{c.Rounded},
		Date: day.Date(), Source: sources(day.Source(from, to).String()),
	}, nil
}

// readAmount reads an amount in plain notation.
func readAmount(text string) (rates.Decimal, *apierror.Error) {
	amount, err := rates.ParseAmount(text)
	if err != nil {
		return amount, invalidAmount(text)
	}
	return amount, nil
}
