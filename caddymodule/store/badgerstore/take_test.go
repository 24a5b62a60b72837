package badgerstore

import (
	"context"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// TakeDaily takes a call with a limit of the day, and returns how much of it is
// used.
func TakeDaily(s *Store, call store.Call, limit int64) (used int64, admitted bool, err error) {
	remaining := []int64{0}
	admitted, err = s.Take(context.Background(), call, []store.Limit{{Max: limit}}, remaining)
	return limit - remaining[0], admitted, err
}
