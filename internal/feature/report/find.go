package report

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

var errUnknownToken = apierror.New(http.StatusNotFound, "not_found", fmt.Sprintf("No key or login token has this SHA-256, or it ended too long ago: a key is kept for %d days after its end, at most the last %d of an account.", store.RevokedFor/(24*time.Hour), store.MaxEndedKeys))

func findKey(ctx context.Context, with *admin.Session, in *api.KeyFinding) (found api.FoundKey, err error) {
	var hash token.Hash
	if err := hash.UnmarshalText([]byte(in.Body.SHA256)); err != nil {
		return found, admin.InvalidRequest("The SHA-256 does not have 64 hexadecimal digits.")
	}
	a, key, err := holding(ctx, with, hash)
	if err != nil {
		return found, err
	}
	shown, err := with.Book.Key(ctx, a.ID, key.ID) // with its last use
	if errors.Is(err, store.ErrNotFound) {
		return found, errUnknownToken // deleted meanwhile
	}
	if err != nil {
		return found, err
	}
	found = api.FoundKey{Account: with.ShowAccount(a.Account), Key: admin.ShowKey(shown), State: api.StateLive}
	if why := shown.NoGrant(with.Now, a.Disabled); why != "" {
		found.State = string(why)
	}
	return found, nil
}

// holding returns the key with a token and its account. The store finds live
// tokens and many that ended. For others, it reads all documents.
func holding(ctx context.Context, with *admin.Session, hash token.Hash) (*book.Account, *book.Key, error) {
	grant, err := with.Book.Confirm(ctx, hash, with.Now)
	if err != nil && !errors.Is(err, store.ErrNoGrant) {
		return nil, nil, err
	}
	if grant.Account != "" {
		a, err := with.Book.Get(ctx, grant.Account)
		if err != nil {
			return nil, nil, err
		}
		if key := a.Holding(hash, with.Now); key != nil {
			return a, key, nil
		}
	}
	var account *book.Account
	var key *book.Key
	const accountsPerRead = 100 // with their keys
	for a, err := range with.Documents(ctx, "", accountsPerRead, true) {
		if err != nil {
			return nil, nil, err
		}
		// Of several accounts that had the token, the last one got it last.
		if k := a.Holding(hash, with.Now); k != nil && (key == nil || k.CreatedAt.After(key.CreatedAt)) {
			account, key = a, k
		}
	}
	if key == nil {
		return nil, nil, errUnknownToken
	}
	return account, key, nil
}
