package redisstore_test

import (
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/redisstore"
)

// TestNames: stores have the same name only if they have the same data.
func TestNames(t *testing.T) {
	t.Parallel()
	names := map[string]string{}
	for _, url := range []string{
		"unix:///run/redis.sock", "unix:///run/redis.sock?db=1", "unix:///run/redis.sock?db=2",
		"redis://10.0.0.5/1", "redis://10.0.0.5/2", "redis+sentinel://10.0.0.5/master/1", "redis+sentinel://10.0.0.5/master/2",
	} {
		for _, prefix := range []string{"", "other"} {
			o := redisstore.Options{URL: url, Prefix: prefix}
			check(t, o.Validate())
			if same, found := names[o.Name()]; found {
				t.Errorf("%s and %s have the name %s", url, same, o.Name())
			}
			names[o.Name()] = url
			o.URL = strings.Replace(url, "://", "://gate:hush@", 1)
			if name := o.Name(); names[name] != url {
				t.Errorf("%s with a password has the name %s", url, name)
			}
		}
	}
}
