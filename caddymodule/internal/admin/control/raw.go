package control

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/store/book"
)

// registerRaw adds the operation that shows what is stored of an account.
func (s *server) registerRaw(router huma.API) {
	huma.Register(router, operation(huma.Operation{
		OperationID: "get-document", Method: http.MethodGet, Path: "/tollgate/accounts/{account}/document", Tags: []string{"accounts"},
		Summary:     "Show what the store has of an account",
		Description: "The account with its keys and login tokens, also those that ended, as in a backup: with the hashes of tokens, without counts and recent calls. Members can change with the version of Tollgate.",
	}), answer(s, s.getDocument))
}

func (s *server) getDocument(ctx context.Context, with *session, in *accountInput) (json.RawMessage, error) {
	a, err := with.book.Get(ctx, string(in.Account))
	if err != nil {
		return nil, err
	}
	return json.Marshal(book.Piece{Document: a})
}
