package redisstore_test

import (
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/redisstore"
)

// TestNames: stores have the same name only if they have the same data.
func TestNames(t *testing.T) {
	t.Parallel()
	names := map[string]redisstore.Options{}
	for _, o := range []redisstore.Options{
		{URL: "unix:///run/redis.sock"},
		{URL: "unix:///run/redis.sock?db=1"},
		{URL: "unix:///run/redis.sock?db=2"},
		{URL: "unix:///run/redis.sock?db=2", Prefix: "other"},
		{URL: "redis://10.0.0.5/1"},
		{URL: "redis://10.0.0.5/2"},
		{URL: "redis+sentinel://10.0.0.5/master/1"},
		{URL: "redis+sentinel://10.0.0.5/master/2"},
	} {
		check(t, o.Validate())
		if same, found := names[o.Name()]; found {
			t.Errorf("%+v and %+v have the name %s", o, same, o.Name())
		}
		names[o.Name()] = o
	}
	with := redisstore.Options{URL: "unix://gate:hush@/run/redis.sock?db=1"}
	if without := (redisstore.Options{URL: "unix:///run/redis.sock?db=1"}); with.Name() != without.Name() {
		t.Errorf("%s is another name than %s", with.Name(), without.Name())
	}
}
