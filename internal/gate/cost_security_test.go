package gate_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// TestBodiesThatParsersReadDifferently: a client sends a body in which the
// gate counts one element and the service finds a hundred. Such a body is
// refused, reaches no service and counts nothing.
func TestBodiesThatParsersReadDifferently(t *testing.T) {
	t.Parallel()
	w := pricedWorld(t, map[string]*policy.Limit{"batch": number(1000)})
	bearer := "Authorization: Bearer " + w.account(t, "acc_1")
	w.next = noUpstream(t)
	for name, body := range map[string]string{
		"duplicate member":          `{"conversions":[1],"conversions":[1,2,3]}`,
		"duplicate with an escape":  `{"conversions":[1],"c\u006fnversions":[1,2,3]}`,
		"another case":              `{"conversions":[1],"Conversions":[1,2,3]}`,
		"another case first":        `{"CONVERSIONS":[1,2,3],"conversions":[1]}`,
		"long s":                    `{"conversions":[1],"conver\u017fions":[1,2,3]}`,
		"case of other members":     `{"conversions":[1],"source":"a","Source":"b"}`,
		"Kelvin sign":               `{"conversions":[1],"k":1,"\u212a":2}`,
		"ignored underscore":        `{"conversions":[1],"conver_sions":[1,2,3]}`,
		"ignored dash":              `{"conversions":[1],"Conversions-":[1,2,3]}`,
		"duplicate at depth":        `{"conversions":[{"a":1,"a":2}]}`,
		"duplicate deep in others":  `{"conversions":[1],"x":{"y":[{"z":1,"z":2}]}}`,
		"invalid UTF-8 in a value":  "{\"conversions\":[\"\xff\"]}",
		"invalid UTF-8 in a name":   "{\"conversions\":[1],\"x\xc0\xaf\":1}",
		"half a surrogate pair":     `{"conversions":["\ud800"]}`,
		"second value":              `{"conversions":[1]}{"conversions":[1,2,3]}`,
		"byte order mark":           "\ufeff" + `{"conversions":[1]}`,
		"NUL at the end":            "{\"conversions\":[1]}\x00",
		"deep nesting":              `{"conversions":[1],"x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`,
		"deep nesting in the array": `{"conversions":[` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `]}`,
		"empty":                     ``,
		"missing member":            `{"conversion":[1]}`,
		"member below":              `{"x":{"conversions":[1]}}`,
		"member is an object":       `{"conversions":{"0":1}}`,
		"member is null":            `{"conversions":null}`,
		"member is text":            `{"conversions":"[1]"}`,
	} {
		got, err := w.ask("POST", batchPath, body, bearer, jsonType)
		if err != nil || got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(), `"code":"invalid_request"`) || !json.Valid(got.Body.Bytes()) {
			t.Errorf("%s: got %d %s, %v", name, got.Code, got.Body, err)
		}
	}
	if n := w.used(t, "acc_1", "batch", noon); n != 0 {
		t.Errorf("counted %d", n)
	}
}

// TestBodiesThatAreNotPlainJSON: a client hides elements behind an encoding or
// a charset, or sends more than the gate reads.
func TestBodiesThatAreNotPlainJSON(t *testing.T) {
	t.Parallel()
	w := pricedWorld(t, map[string]*policy.Limit{"batch": number(1000)})
	bearer := "Authorization: Bearer " + w.account(t, "acc_1")
	w.next = noUpstream(t)
	for name, c := range map[string]struct {
		header []string
		body   string
		status int
	}{
		"no type":         {nil, items(1), 415},
		"gzip":            {[]string{jsonType, "Content-Encoding: gzip"}, items(1), 415},
		"too long":        {[]string{jsonType}, items(1) + strings.Repeat(" ", 1<<10), 413},
		"a byte too long": {[]string{jsonType}, items(1) + strings.Repeat(" ", 1<<10+1-len(items(1))), 413},
	} {
		got, err := w.ask("POST", batchPath, c.body, append(c.header, bearer)...)
		if err != nil || got.Code != c.status {
			t.Errorf("%s: got %d %s, %v, want %d", name, got.Code, got.Body, err, c.status)
		}
	}
	if n := w.used(t, "acc_1", "batch", noon); n != 0 || w.outcomes["batch malformed"] != 4 {
		t.Errorf("counted %d, outcomes %v", n, w.outcomes)
	}
}

// TestHeadersThatChangeTheCost: no header of the client changes what a call
// costs, or which length the service sees.
func TestHeadersThatChangeTheCost(t *testing.T) {
	t.Parallel()
	w := pricedWorld(t, map[string]*policy.Limit{"batch": number(1000)})
	bearer := "Authorization: Bearer " + w.account(t, "acc_1")
	w.next = func(rw http.ResponseWriter, r *http.Request) error {
		if r.Method != http.MethodPost || r.Header.Get("X-HTTP-Method-Override")+r.Header.Get("Trailer")+r.Header.Get("Tollgate-Cost") != "" {
			t.Errorf("the upstream got %s with %v", r.Method, r.Header)
		}
		rw.WriteHeader(http.StatusOK)
		return nil
	}
	got, err := w.ask("POST", batchPath, items(7), bearer, jsonType, "X-HTTP-Method-Override: GET", "Tollgate-Cost: 1", "Trailer: Content-Length", "RateLimit: 1")
	if n := w.used(t, "acc_1", "batch", noon); err != nil || got.Code != http.StatusOK || n != 7 {
		t.Errorf("got %d %s, %v, counted %d, want 7", got.Code, got.Body, err, n)
	}
}

// FuzzCost: no other reader finds another number of elements in a body that the
// gate admits, neither one that ignores case and takes the last of two members
// nor one that goes by exact names.
func FuzzCost(f *testing.F) {
	for _, seed := range []string{
		items(0), items(3), `{"conversions":[1],"Conversions":[]}`, `{"conversions":[1],"conversions":[]}`, `{"conver\u017fions":[1]}`,
		`{"x":{"conversions":[1]},"conversions":[[],{}]}`, `{"conversions":null}`, `[]`, "{\"conversions\":[\"\xff\"]}", `{}{}`,
	} {
		f.Add(seed)
	}
	w := pricedWorld(f, map[string]*policy.Limit{"batch": nil})
	bearer := "Authorization: Bearer " + w.account(f, "acc_1")
	f.Fuzz(func(t *testing.T, body string) {
		before := w.used(t, "acc_1", "batch", noon)
		answer, err := w.ask("POST", batchPath, body, bearer, jsonType)
		if err != nil {
			t.Fatal(err)
		}
		cost := w.used(t, "acc_1", "batch", noon) - before
		if answer.Code != http.StatusOK {
			if cost != 0 {
				t.Fatalf("a refused call costs %d", cost)
			}
			return
		}
		var loose struct{ Conversions []json.RawMessage }
		var exact map[string]json.RawMessage
		var members []json.RawMessage
		if json.Unmarshal([]byte(body), &loose) != nil || json.Unmarshal([]byte(body), &exact) != nil || json.Unmarshal(exact["conversions"], &members) != nil || !utf8.ValidString(body) {
			t.Fatalf("admitted what encoding/json refuses: %q", body)
		}
		if want := max(1, int64(len(members))); cost != want || max(1, int64(len(loose.Conversions))) != want {
			t.Fatalf("cost %d, others read %d and %d elements in %q", cost, len(members), len(loose.Conversions), body)
		}
	})
}
