package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// documentsPerRead is how many accounts with their keys are read at once.
const documentsPerRead = 100

type findKeyInput struct{ Body api.KeySearch }

func (s *server) registerFind(router huma.API) {
	huma.Register(router, operation(huma.Operation{
		OperationID: "find-key", Method: http.MethodPost, Path: "/tollgate/keys/find", Tags: []string{"keys"},
		Summary: "Find the key or login token with a SHA-256",
		Description: "Also one that ended and is still kept. It changes nothing; the hash is in the body because access logs have URLs. " +
			"An unknown hash reads all keys.",
	}, http.StatusNotFound), answer(s, s.findKey))
}

func (s *server) findKey(ctx context.Context, with *session, in *findKeyInput) (found api.FoundKey, err error) {
	var hash token.Hash
	if err := hash.UnmarshalText([]byte(in.Body.SHA256)); err != nil {
		return found, invalidRequest("The SHA-256 does not have 64 hexadecimal digits.")
	}
	a, key, err := with.holding(ctx, hash)
	if err != nil {
		return found, err
	}
	shown, err := with.book.Key(ctx, a.ID, key.ID) // with its last use
	if errors.Is(err, store.ErrNotFound) {
		return found, errUnknownToken // deleted meanwhile
	}
	if err != nil {
		return found, err
	}
	found = api.FoundKey{Account: showAccount(a.Account), Key: showKey(shown), State: api.StateLive}
	if why := shown.NoGrant(with.now, a.Disabled); why != "" {
		found.State = string(why)
	}
	return found, nil
}

// holding returns the key with a token and its account. The store finds live
// tokens and many that ended. For others, it reads all documents.
func (with *session) holding(ctx context.Context, hash token.Hash) (*book.Account, *book.Key, error) {
	grant, err := with.book.Confirm(ctx, hash, with.now)
	if err != nil && !errors.Is(err, store.ErrNoGrant) {
		return nil, nil, err
	}
	if grant.Account != "" {
		a, err := with.book.Get(ctx, grant.Account)
		if err != nil {
			return nil, nil, err
		}
		if key := a.Holding(hash, with.now); key != nil {
			return a, key, nil
		}
	}
	var account *book.Account
	var key *book.Key
	for a, err := range with.documents(ctx, "", documentsPerRead, true) {
		if err != nil {
			return nil, nil, err
		}
		// Of several accounts that had the token, the last one got it last.
		if k := a.Holding(hash, with.now); k != nil && (key == nil || k.CreatedAt.After(key.CreatedAt)) {
			account, key = a, k
		}
	}
	if key == nil {
		return nil, nil, errUnknownToken
	}
	return account, key, nil
}
