// Package explain tells what the gate would answer to a request, and why.
package explain

import (
	"context"
	"errors"
	"net/http"
	"net/netip"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

var errUnknownKey = apierror.New(http.StatusNotFound, "not_found", "There is no such key.")

// Gate has the options of the gate that is explained.
type Gate interface{ Options() gate.Options }

// Serve adds the operation.
func Serve(s *admin.Server, of Gate) {
	admin.Handle(s, api.Explain, func(ctx context.Context, with *admin.Session, in *api.Question) (api.Explanation, error) {
		return explain(ctx, of, with, in)
	})
}

func explain(ctx context.Context, of Gate, with *admin.Session, in *api.Question) (api.Explanation, error) {
	question := Question{Method: in.Method, Target: in.Target, Cost: in.Cost}
	if in.From != "" {
		from, err := netip.ParseAddr(in.From)
		if err != nil || from.Zone() != "" {
			return api.Explanation{}, admin.InvalidAddress(in.From)
		}
		question.From = from
	}
	id := in.Account
	if id == "" && in.Key != "" {
		var err error
		if id, err = with.Book.HolderOfKey(ctx, in.Key); errors.Is(err, store.ErrNotFound) {
			return api.Explanation{}, errUnknownKey
		} else if err != nil {
			return api.Explanation{}, err
		}
	}
	if id != "" {
		a, err := with.Account(ctx, id)
		if err != nil {
			return api.Explanation{}, err
		}
		question.Account = &a.Account
		if in.Key != "" {
			key, err := admin.Find(a, in.Key)
			if err != nil {
				return api.Explanation{}, err
			}
			question.Key = &key.Key
		}
	}
	return Explain(ctx, of.Options(), question)
}
