package web

import (
	"net/http"
)

// docs shows a page of the reference of the API.
func (s *site) docs(w http.ResponseWriter, r *http.Request) error {
	body := s.Docs[r.URL.Path]
	p := page{Title: "API docs", Section: "docs", Body: body}
	if v := s.visitor(r); v != nil {
		p = v.page(p.Title, p.Section, body)
	}
	return s.views.show(w, http.StatusOK, "docs", p)
}

// routeDocs adds the reference of the API, if there is one.
func (s *site) routeDocs(mux *http.ServeMux) {
	for path := range s.Docs {
		mux.HandleFunc("GET "+path, s.open(s.docs))
	}
}
