package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// batchAnswer is the answer to a batch, its results undecoded.
type batchAnswer struct {
	Count     int              `json:"count"`
	Succeeded int              `json:"succeeded"`
	Failed    int              `json:"failed"`
	Results   []jsontext.Value `json:"results"`
}

func TestBatch(t *testing.T) {
	t.Parallel()
	a := serve(t).batch(t, `{"conversions":[
		{"id":"b","from":"EUR","to":"USD","amount":100},
		{"id":"","to":"gbp","amount":"0.5","date":"2026-09-27","from":"usd"},
		{"from":"EUR","to":"ZZZ","amount":1,"id":null,"date":null},
		{"id":"b","from":"EUR","to":"BGN","amount":1},
		{"from":"EUR","to":"USD","amount":"1e400"},
		{"from":"EUR","to":"USD","amount":1e-7},
		{"from":"","to":"USD","amount":1},
		{"from":"EUR","to":"USD","amount":1,"date":"2026-09-30"},
		{"from":"EUR","to":"USD","amount":123456789012345.6},
		{"id":"é€😀","from":"EUR","to":"USD","amount":0.10},
		{"from":"EUR","to":"USD","amount":1,"date":""}
	]}`)
	if got, want := a.header.Get("Cache-Control"), "no-store"; got != want {
		t.Errorf("Cache-Control = %q, want %q", got, want)
	}
	if got := a.header.Get("ETag"); got != "" {
		t.Errorf("ETag = %s on the answer to a POST", got)
	}
	var got batchAnswer
	a.decode(t, &got)
	if got.Count != 11 || got.Succeeded != 4 || got.Failed != 7 {
		t.Errorf("count %d, succeeded %d, failed %d, want 11, 4, 7", got.Count, got.Succeeded, got.Failed)
	}
	for i, want := range []string{
		`{"index":0,"id":"b","status":200,"from":"EUR","to":"USD","amount":100,"rate":1.1701,"result":117.01,"rounded":117.01,"date":"2026-09-25","source":"ECB"}`,
		`{"index":1,"id":"","status":200,"from":"USD","to":"GBP","amount":0.5,"rate":0.745620032476,"result":0.372810016238,"rounded":0.37,"date":"2026-09-25","source":"ECB"}`,
		`{"index":2,"id":null,"status":404,"error":{"message":"The currency ZZZ is unknown. GET /api/currencies lists all currencies.","code":"unknown_currency"}}`,
		`{"index":3,"id":"b","status":404,"error":{"message":"The currency BGN ended on 2025-12-31. Its successor is EUR.","code":"currency_retired","successor":"EUR"}}`,
		`"code":"invalid_amount"`,
		`{"index":5,"id":null,"status":200,"from":"EUR","to":"USD","amount":0.0000001,"rate":1.1701,"result":0.00000011701,"rounded":0.00,"date":"2026-09-25","source":"ECB"}`,
		`"code":"invalid_currency"`, `"code":"invalid_date"`, `"code":"invalid_amount"`,
		`{"index":9,"id":"é€😀","status":200,"from":"EUR","to":"USD","amount":0.1,"rate":1.1701,"result":0.11701,"rounded":0.12,"date":"2026-09-25","source":"ECB"}`,
		`"code":"invalid_date"`,
	} {
		if strings.HasPrefix(want, "{") && string(got.Results[i]) != want {
			t.Errorf("result %d:\ngot  %s\nwant %s", i, got.Results[i], want)
		}
		if !strings.Contains(string(got.Results[i]), want) {
			t.Errorf("result %d: %s has no %s", i, got.Results[i], want)
		}
	}
}

// TestBatchAmounts: however a JSON number is written, it is that number,
// and comes back in plain notation. A string has one notation.
func TestBatchAmounts(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for written, want := range map[string]string{
		"1e-7": "0.0000001", "1E2": "100", "1.5e+3": "1500", "1e14": "100000000000000", "1e-10": "0.0000000001",
		"1.50": "1.5", "12345678901234.5e1": "123456789012345",
		`"1500.00"`: "1500", `"007.5"`: "7.5",
		"1e400": "", "1e15": "", "1e-11": "", "123456789012345.6": "",
		"0": "", "0e5": "", "-1": "", "-0": "", "1e99999999999999999999": "", "0." + strings.Repeat("0", 70) + "1e71": "",
		`"1e2"`: "", `" 1"`: "", `""`: "", `"+1"`: "",
	} {
		var answer struct {
			Results []struct {
				Status int            `json:"status"`
				Amount jsontext.Value `json:"amount"`
				Error  struct {
					Code    string `json:"code"`
					Message string `json:"message"`
				} `json:"error"`
			} `json:"results"`
		}
		s.batch(t, `{"conversions":[{"from":"EUR","to":"USD","amount":`+written+`}]}`).decode(t, &answer)
		got := answer.Results[0]
		switch {
		case string(got.Amount) != want:
			t.Errorf("%s: got %s, want %q", written, got.Amount, want)
		case want == "" && (got.Status != http.StatusBadRequest || got.Error.Code != "invalid_amount"):
			t.Errorf("%s: got %+v, want invalid_amount", written, got)
		case want == "" && strings.Contains(got.Error.Message, "plain notation") != (written[0] == '"'):
			t.Errorf("%s: %q misleads", written, got.Error.Message)
		}
	}
}

func TestBatchRefusals(t *testing.T) {
	t.Parallel()
	s := serve(t)
	one := `{"from":"EUR","to":"USD","amount":1}`
	for name, body := range map[string]string{
		"empty":                   "",
		"list":                    "[" + one + "]",
		"null":                    "null",
		"none":                    `{"conversions":[]}`,
		"101":                     `{"conversions":[` + strings.Repeat(one+",", 100) + one + `]}`,
		"null item":               `{"conversions":[null]}`,
		"trailing value":          `{"conversions":[` + one + `]} {}`,
		"cut short":               `{"conversions":[` + one,
		"duplicate":               `{"conversions":[` + one + `],"conversions":[` + one + `]}`,
		"duplicate escaped":       `{"conversions":[{"from":"EUR","to":"USD","amount":1,"\u0061mount":2}]}`,
		"unknown in item":         `{"conversions":[{"from":"EUR","to":"USD","amount":1,"data":"2026-09-25"}]}`,
		"other case":              `{"conversions":[{"From":"EUR","to":"USD","amount":1}]}`,
		"no from":                 `{"conversions":[{"to":"USD","amount":1}]}`,
		"null amount":             `{"conversions":[{"from":"EUR","to":"USD","amount":null}]}`,
		"list amount":             `{"conversions":[{"from":"EUR","to":"USD","amount":[1]}]}`,
		"leading zero amount":     `{"conversions":[{"from":"EUR","to":"USD","amount":01}]}`,
		"NaN amount":              `{"conversions":[{"from":"EUR","to":"USD","amount":NaN}]}`,
		"number id":               `{"conversions":[{"id":1,"from":"EUR","to":"USD","amount":1}]}`,
		"long id":                 `{"conversions":[{"id":"` + strings.Repeat("é", 65) + `","from":"EUR","to":"USD","amount":1}]}`,
		"invalid UTF-8":           "{\"conversions\":[{\"from\":\"EUR\",\"to\":\"USD\",\"amount\":1,\"id\":\"\xff\"}]}",
		"half a surrogate":        `{"conversions":[{"from":"EUR","to":"USD","amount":1,"id":"\ud800"}]}`,
		"deep":                    strings.Repeat(`{"conversions":[`, 4000),
		"64 KiB of open brackets": strings.Repeat("[", 64<<10),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.batch(t, body).refused(t, 400, "invalid_request")
		})
	}
}

// TestBatchSaysWhere: who sends a hundred conversions wants to know which.
func TestBatchSaysWhere(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for body, want := range map[string]string{
		`{"conversions":[{"from":"EUR","to":"USD","amount":1},{"from":"EUR","to":"USD","amount":true}]}`: `"/conversions/1/amount" must be a number or a string`,
		`{"conversions":[{"from":"EUR","to":"USD","amount":1,"data":1}]}`:                                `unknown member "conversions/0/data"; allowed: id, from, to, amount, date.`,
		`{"conversions":[{"from":840,"to":"USD","amount":1}]}`:                                           `"/conversions/0/from" must be a string`,
		`{"conversions":[{"from":"EUR","to":"USD","to":"USD","amount":1}]}`:                              `duplicate member "conversions/0/to"`,
		`{"conversions":[{"from":"EUR","to":"USD","amount":1},{"from":"EUR","to":"USD"}]}`:               "member amount of /conversions/1",
		`{"conversions":[`: "byte 16",
	} {
		if p := s.batch(t, body).refused(t, 400, "invalid_request"); !strings.Contains(p.Message, want) {
			t.Errorf("%s: %q does not name %q", body, p.Message, want)
		}
	}
}

func TestBatchMediaTypes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	body := `{"conversions":[{"from":"EUR","to":"USD","amount":1}]}`
	post := func(body string, fields ...string) answer {
		r := httptest.NewRequest(http.MethodPost, "/api/convert/batch", strings.NewReader(body))
		for i := 0; i < len(fields); i += 2 {
			r.Header.Add(fields[i], fields[i+1])
		}
		return s.do(t, r)
	}
	for _, media := range []string{"Application/JSON", `application/json;charset="UTF-8"`, "application/json; profile=a+b"} {
		if a := post(body, "Content-Type", media); a.status != http.StatusOK {
			t.Errorf("%s: got %d %s, want 200", media, a.status, a.body)
		}
	}
	for _, media := range []string{
		"", "text/plain", "application/json; charset=latin1", "application/json, text/plain", "application/problem+json",
	} {
		post(body, "Content-Type", media).refused(t, 415, "unsupported_media_type")
	}
	post(body).refused(t, 415, "unsupported_media_type")
	post(body, "Content-Type", "application/json", "Content-Type", "text/plain").refused(t, 415, "unsupported_media_type")
	if a := post(body, "Content-Type", "application/json", "Content-Encoding", "identity"); a.status != http.StatusOK {
		t.Errorf("identity: got %d %s, want 200", a.status, a.body)
	}
	post(body, "Content-Type", "application/json", "Content-Encoding", "gzip").refused(t, 415, "unsupported_media_type")

	padded := func(size int) string { return body + strings.Repeat(" ", size-len(body)) }
	if a := post(padded(64<<10), "Content-Type", "application/json"); a.status != http.StatusOK {
		t.Errorf("64 KiB: got %d %s, want 200", a.status, a.body)
	}
	post(padded(64<<10+1), "Content-Type", "application/json").refused(t, 413, "body_too_large")
}

// TestBatchEqualsSingles: each item says byte for byte what its single
// conversion says, whatever stands around it.
func TestBatchEqualsSingles(t *testing.T) {
	t.Parallel()
	s := serve(t)
	item := rapid.Custom(func(rt *rapid.T) [4]string {
		return [4]string{
			rapid.SampledFrom([]string{"EUR", "usd", "KWD", "XAU", "BGN", "ZZZ", "US"}).Draw(rt, "from"),
			rapid.OneOf(anyAmount, rapid.SampledFrom([]string{"0", "1e3", "1.12345678901"})).Draw(rt, "amount"),
			rapid.SampledFrom([]string{"EUR", "jpy", "VND", "DEM"}).Draw(rt, "to"),
			rapid.SampledFrom([]string{"", "2026-09-20", "2026-09-25", "2026-10-01", "2025-12-31", "x"}).Draw(rt, "date"),
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		items := rapid.SliceOfN(item, 1, 8).Draw(rt, "items")
		var list, want []string
		succeeded := 0
		for i, it := range items {
			date, query := "null", ""
			if it[3] != "" {
				date, query = `"`+it[3]+`"`, "?date="+it[3]
			}
			list = append(list, fmt.Sprintf(`{"id":"%d","from":%q,"amount":%q,"to":%q,"date":%s}`, i, it[0], it[1], it[2], date))
			single := s.send(request(http.MethodGet, "/api/convert/"+it[0]+"/"+it[1]+"/"+it[2]+query))
			head := fmt.Sprintf(`{"index":%d,"id":"%d","status":%d,`, i, i, single.status)
			if single.status == http.StatusOK {
				succeeded++
				want = append(want, head+string(single.body[1:]))
			} else {
				want = append(want, head+`"error":`+string(single.body)+"}")
			}
		}
		var got batchAnswer
		s.batch(t, `{"conversions":[`+strings.Join(list, ",")+`]}`).decode(t, &got)
		if got.Count != len(items) || got.Succeeded != succeeded || got.Failed != len(items)-succeeded {
			rt.Fatalf("count %d, succeeded %d, failed %d for %d items of which %d succeed alone",
				got.Count, got.Succeeded, got.Failed, len(items), succeeded)
		}
		for i := range want {
			if string(got.Results[i]) != want[i] {
				rt.Fatalf("result %d:\ngot  %s\nwant %s", i, got.Results[i], want[i])
			}
		}
	})
}

// FuzzBatch: whatever the body is, the answer is 200 or a refusal that the
// document knows, and it is JSON.
func FuzzBatch(f *testing.F) {
	f.Add(`{"conversions":[{"id":"a","from":"EUR","to":"USD","amount":1.5,"date":"2026-09-25"}]}`)
	f.Add(`{"conversions":[{"from":"EUR","to":"ZZZ","amount":"1e400"}]}`)
	f.Add(`{"conversions":[{"from":null}]}`)
	f.Add("[1e999,\"\xff\"]")
	s := serve(f)
	f.Fuzz(func(t *testing.T, body string) {
		a := s.batch(t, body)
		switch a.status {
		case http.StatusOK:
			var got batchAnswer
			a.decode(t, &got)
			if got.Count != len(got.Results) || got.Count != got.Succeeded+got.Failed || got.Count < 1 || got.Count > 100 {
				t.Errorf("%s: %s does not add up", body, a.body)
			}
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
			a.refusal(t)
		default:
			t.Errorf("%q: %d %s", body, a.status, a.body)
		}
	})
}
