package credential

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/gate/request"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// TestInQuery: a token in the query is found under each name that says
// token, and a token of the gate under any name. Parameters of the service pass.
func TestInQuery(t *testing.T) {
	t.Parallel()
	made, err := token.New(token.Key, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own := made.Reveal()
	for query, want := range map[string]bool{
		"access_token=1": true, "Api_Key": true, "a&b;api_key=": true, "%61pi%5Fkey=1": true, "access%5ftoken=1": true, "&&access_token": true,
		"apikey=x": true, "apiKey=x": true, "api-key=x": true, "api.key=x": true, "accessToken=x": true, "access-token=x": true,
		"token=" + own: true, "x=1&t=" + own: true, "%74=" + own: true, "t=" + strings.ReplaceAll(own, "_", "%5F") + ";a=1": true,
		"": false, "date=2026-01-01": false, "access_tokens=1": false, "x=access_token": false, "x=1&y=api_key": false, "%zz=1": false,
		"api_key%00=1": false, "a=%26access_token%3D": false,
		"token=x": false, "key": false, "apikeys=x": false, "api=key": false, "my_api_key=x": false, "_=1": false, "=" + own[:len(own)-1] + "!": false,
	} {
		if got := InQuery(query); got != want {
			t.Errorf("%q: got %t, want %t", query, got, want)
		}
	}
}

// TestOverridesMethod: the parameter _method is found in each spelling that some
// framework reads.
func TestOverridesMethod(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]bool{
		"_method=PUT": true, "a=1&_method": true, "%5Fmethod=x": true, "_%6Dethod=x": true, "a;_METHOD=x": true, ".method=x": true, "+_method=x": true, "%5Bmethod=x": true, "_method[]=x": true, "_method%5B0%5D=x": true,
		"": false, "method=x": false, "a_method=x": false, "_methods=x": false, "x=_method": false, "_=method": false, "__method=x": false, "_metho": false,
	} {
		if got := OverridesMethod(query); got != want {
			t.Errorf("%q: got %t, want %t", query, got, want)
		}
	}
}

// FuzzCredentials holds the reading of a token to what others read: one that
// is accepted is well-formed, the only one, and not in the query. A password is
// that of net/http, and is accepted if it is a token.
func FuzzCredentials(f *testing.F) {
	tok, err := token.New(token.Key, rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	good, readers := tok.Reveal(), map[bool]*Reader{false: New(new(policy.Policy), nil), true: New(&policy.Policy{TokenBasic: true}, nil)}
	f.Add("Bearer "+good, "", "", false)
	f.Add("bearer   "+good+"  ", "Basic x", "date=1", true)
	f.Add("Bearer", "", "access_token="+good, false)
	f.Add("Bearer "+good+","+good, "", "%61ccess_token", true)
	for _, text := range []string{"git:" + good, ":" + good, good + ":", good + ":x", good + ":" + good, good, "git:" + good + "\x00", "\t:" + good, "g\xffit:" + good} {
		f.Add("Basic "+base64.StdEncoding.EncodeToString([]byte(text)), "", "", true)
	}
	f.Add("bAsic   "+base64.StdEncoding.EncodeToString([]byte("a:"+good))+" ", "", "", true)
	f.Add("Basic "+base64.RawStdEncoding.EncodeToString([]byte("ab:"+good)), "", "", true)
	f.Fuzz(func(t *testing.T, first, second, query string, basic bool) {
		fields := []string{first}
		if second != "" {
			fields = append(fields, second)
		}
		r := &http.Request{URL: &url.URL{RawQuery: query}, Header: http.Header{}}
		found, refused := readers[basic].Read(Request{r, policy.Route{Endpoint: new(policy.Endpoint)}, request.Facts{Authorization: fields}})
		values, _ := url.ParseQuery(query)
		named := false
		for name := range values {
			name = strings.NewReplacer("_", "", "-", "", ".", "").Replace(name)
			named = named || strings.EqualFold(name, "accesstoken") || strings.EqualFold(name, "apikey")
		}
		if named && refused != refusal.ManyTokens {
			t.Fatalf("a token in the query: got %v", refused)
		}
		scheme, text, _ := strings.Cut(first, " ")
		text = strings.Trim(text, " ")
		if basic && strings.EqualFold(scheme, "Basic") {
			r.Header.Set("Authorization", "Basic "+text)
			user, password, ok := r.BasicAuth()
			if text = cmp.Or(password, user); token.IsOwn(user) && !token.IsOwn(password) {
				text = user
			}
			if !ok || strings.ContainsFunc(user+password, unicode.IsControl) || token.IsOwn(user) && token.IsOwn(password) && user != password {
				text = ""
			}
		} else if !strings.EqualFold(scheme, "Bearer") {
			text = ""
		}
		want, err := token.Parse(text)
		if accepted := refused == nil; accepted != (err == nil && second == "" && !InQuery(query)) {
			t.Fatalf("%q, %q, %q: accepted %t with the token %q", first, second, query, accepted, text)
		}
		if refused != nil && found != (Credential{}) || refused == nil && found.Hash != want {
			t.Fatalf("%q: got %v, %v", first, found, refused)
		}
	})
}
