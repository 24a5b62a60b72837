package client

import "context"

// actor is the key of an actor in a context.
type actor struct{}

// WithActor names who makes the changes of calls with the context, for the
// audit log: the id of a person, at most api.MaxActor printable characters of
// ASCII. Calls that change nothing do not send it.
func WithActor(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, actor{}, id)
}

func actorOf(ctx context.Context) string {
	id, _ := ctx.Value(actor{}).(string)
	return id
}
