package web

import (
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// tokenView is the page that shows a token once.
type tokenView struct {
	Key     keyRow
	Token   string
	Sample  *sample // nil if the key may call no GET endpoint
	Rotated bool
}

// showToken answers the request that created the token. It does not redirect
// to another page, since the token must not be stored.
func (s *site) showToken(w http.ResponseWriter, v *visit, issued api.IssuedKey, rotated bool) error {
	view := tokenView{v.keyRow(issued.Key), issued.Token, s.sample(v, issued.Abilities, issued.Token), rotated}
	return s.views.show(w, http.StatusOK, "token", v.page("Your new key", "settings", view))
}
