package web

import (
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/api"
	"github.com/caddy-tollgate/tollgate/upstream/rates"
)

// snapshot is a source with the embedded rates.
type snapshot struct{ data *rates.Dataset }

func (s snapshot) Current() *rates.Dataset            { return s.data }
func (snapshot) NextExpected(now time.Time) time.Time { return now }

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
		currencies, err := api.New(snapshot{data}, s.Address, s.Now)
		if err != nil {
			return err
		}
		shown := *s
		shown.Docs = currencies.Reference
		shown.routes().ServeHTTP(w, loaded(s, httptest.NewRequest(http.MethodGet, path, nil)))
		return nil
	}
}
