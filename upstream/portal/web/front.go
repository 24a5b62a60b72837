package web

import "net/http"

// frontView is the front page.
type frontView struct {
	Address, Timezone string
	SignUp            bool
}

// front shows the front page, or My usage to a person who is signed in.
func (s *site) front(w http.ResponseWriter, r *http.Request) error {
	if _, found := s.sessions.Current(r.Context()); found {
		redirect(w, usagePath, nil)
		return nil
	}
	return s.views.show(w, http.StatusOK, "front", page{Notice: notices[r.URL.Query().Get("done")], Body: frontView{s.Address.String(), s.Timezone, s.SignUp != ""}})
}

// routeDocs adds the reference of the API, if there is one.
func (s *site) routeDocs(mux *http.ServeMux) {
	for path, body := range s.Docs {
		mux.HandleFunc("GET "+path, s.open(func(w http.ResponseWriter, r *http.Request) error {
			return s.views.show(w, http.StatusOK, "docs", s.visitor(r).page("API docs", "docs", body))
		}))
	}
}
