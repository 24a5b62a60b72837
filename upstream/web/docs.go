package web

import (
	"net/http"
)

const docsPath = "/docs"

// docs shows the reference of the API.
func (s *site) docs(w http.ResponseWriter, r *http.Request) error {
	p := page{Title: "API docs", Section: "docs", Body: s.Docs}
	if v := s.visitor(r); v != nil {
		p = v.page(p.Title, p.Section, s.Docs)
	}
	return s.views.show(w, http.StatusOK, "docs", p)
}

// routeDocs adds the reference of the API, if there is one.
func (s *site) routeDocs(mux *http.ServeMux) {
	if s.Docs != "" {
		mux.HandleFunc("GET "+docsPath, s.open(s.docs))
	}
}
