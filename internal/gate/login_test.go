package gate

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
)

func TestLoginAccount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		media, body, want string
	}{
		"json":              {"application/json", `{"email":"a@b","password":"x"}`, "a@b"},
		"in capitals":       {"application/json", `{"EMAIL":"a@b"}`, "a@b"},
		"space around":      {"application/json", " \r\n{\"email\":\"a@b\"}\t", "a@b"},
		"unknown members":   {"application/json", `{"x":null,"email":"a@b","y":[{}]}`, "a@b"},
		"escapes":           {"application/json", `{"email":"\u0061@b\ud83d\ude00"}`, "a@b😀"},
		"without an email":  {"application/json", `{}`, ""},
		"charset":           {"application/json;charset=UTF-8", `{"email":"a@b"}`, "a@b"},
		"form":              {"application/x-www-form-urlencoded", "password=x&email=a%40b", "a@b"},
		"form, no email":    {"application/x-www-form-urlencoded", "next=%2F", ""},
		"form, space":       {"application/x-www-form-urlencoded", "email=+a%40b", " a@b"},
		"media in capitals": {"Application/JSON", `{"email":"a@b"}`, "a@b"},
	} {
		r := httptest.NewRequest("POST", "/login?next=%2Fsettings", strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.media)
		got, refusal := loginAccount(httptest.NewRecorder(), r)
		if refusal != nil || got != c.want {
			t.Errorf("%s: got %q, %v; want %q", name, got, refusal, c.want)
		}
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != c.body || r.ContentLength != int64(len(c.body)) {
			t.Errorf("%s: the upstream would read %q (%v), length %d", name, body, err, r.ContentLength)
		}
	}
}

// TestLargestLogin: the largest body is accepted, and one more byte is not.
func TestLargestLogin(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]*refusal.Refusal{maxLoginBody: nil, maxLoginBody + 1: refusal.LoginBodySize} {
		body := `{"email":"a@b","x":"` + strings.Repeat("y", size-len(`{"email":"a@b","x":""}`)) + `"}`
		r := httptest.NewRequest("POST", "/login", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if _, got := loginAccount(httptest.NewRecorder(), r); got != want {
			t.Errorf("%d bytes: got %v, want %v", len(body), got, want)
		}
	}
}

// FuzzLoginJSON: no other reader finds another account in a body that the
// gate accepts, neither one that ignores case and takes the last of two
// members nor one that goes by exact names.
func FuzzLoginJSON(f *testing.F) {
	for _, seed := range []string{
		`{"email":"a@b","password":"x"}`, `{"Email":"a@b"}`, `{"email":"a","EMAIL":"b"}`, `{"email":"a","email":"b"}`,
		`{"email":null}`, `{"e_mail":"a"}`, `{"emaıl":"a"}`, `[{"email":"a"}]`, `{"x":{"email":"a"}}`, `{"email":"\ud800"}`, `null`, `{}{}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, ok := jsonEmail(body)
		if !ok {
			return
		}
		var loose struct{ Email, Password string }
		if err := json.Unmarshal(body, &loose); err != nil {
			t.Fatalf("accepted what encoding/json refuses: %v", err)
		}
		if loose.Email != "" && loose.Email != got {
			t.Fatalf("got %q, others read %q", got, loose.Email)
		}
		var exact map[string]any
		if err := json.Unmarshal(body, &exact); err != nil || exact == nil {
			t.Fatalf("accepted what is no object: %v", err)
		}
		if email, there := exact["email"]; there && email != got {
			t.Fatalf("got %q, others read %v", got, email)
		}
		if !utf8.ValidString(got) {
			t.Fatalf("got %q", got)
		}
	})
}

// FuzzLoginForm is the same for forms.
func FuzzLoginForm(f *testing.F) {
	for _, seed := range []string{"email=a%40b&password=x", "Email=a&email=b", "email=a;email=b", "+email=a", "email", "%65mail=a&email=", "email=%ff"} {
		f.Add(seed, "")
		f.Add("password=x", seed)
	}
	f.Fuzz(func(t *testing.T, body, query string) {
		r := &http.Request{
			Method: "POST", URL: &url.URL{Path: "/login", RawQuery: query}, Body: io.NopCloser(strings.NewReader(body)),
			Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
		}
		got, refusal := loginAccount(httptest.NewRecorder(), r)
		if refusal != nil {
			return
		}
		if err := r.ParseForm(); err != nil {
			t.Fatalf("accepted what net/http refuses: %v", err)
		}
		if emails := r.Form["email"]; len(emails) > 1 || len(emails) == 1 && emails[0] != got {
			t.Fatalf("got %q, others read %q", got, emails)
		}
	})
}
