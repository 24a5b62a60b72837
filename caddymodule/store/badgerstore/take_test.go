package badgerstore

import (
	"context"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// TakeDaily takes a call with a limit of the day, and returns how much of it is
// used.
func TakeDaily(s *Store, call store.Call, limit int64) (used int64, admitted bool, err error) {
	rooms := make([]store.Room, 1)
	admitted, err = s.Take(context.Background(), call, Daily(call.Endpoint, limit), rooms)
	return limit - rooms[0].Remaining, admitted, err
}

// Daily returns a limit of the calls to an endpoint on one day.
func Daily(endpoint string, limit int64) []store.Limit {
	return []store.Limit{{Endpoint: endpoint, Period: store.Day, Max: limit}}
}
