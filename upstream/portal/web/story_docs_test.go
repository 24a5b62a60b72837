package web

import (
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/currency/api"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// embedded is a source with the embedded indicative rates.
type embedded struct{ data *rates.Dataset }

func (s embedded) Current() *rates.Dataset            { return s.data }
func (embedded) NextExpected(now time.Time) time.Time { return now }

// docsStories are the states of the reference of the API.
func docsStories() map[string]story {
	return map[string]story{
		"docs":        docsStory("/docs"),
		"docs-go":     docsStory("/docs/go"),
		"docs-errors": docsStory("/docs/errors"),
	}
}

func docsStory(path string) story {
	return func(s *site, w http.ResponseWriter) error {
		data, err := rates.Indicative()
		if err != nil {
			return err
		}
		currencies, err := api.New(embedded{data}, s.Address, s.Now)
		if err != nil {
			return err
		}
		shown := *s
		shown.Docs = currencies.Reference
		shown.routes().ServeHTTP(w, loaded(s, httptest.NewRequest(http.MethodGet, path, nil)))
		return nil
	}
}
