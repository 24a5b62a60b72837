package web

import (
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// tokenView is the page that shows a token once.
type tokenView struct {
	Key     keyRow
	Token   string
	Samples samples
	Rotated bool
}

// showToken answers the request that created the token. It does not redirect
// to another page, since the token must not be stored.
func (s *site) showToken(w http.ResponseWriter, v *visit, issued api.IssuedKey, rotated bool) error {
	samples, err := s.samples(v, issued.Abilities, issued.Token)
	if err != nil {
		return err
	}
	view := tokenView{Key: v.keyRow(issued.Key), Token: issued.Token, Samples: samples, Rotated: rotated}
	return s.views.show(w, http.StatusOK, "token", v.page("Your new key", "settings", view))
}
