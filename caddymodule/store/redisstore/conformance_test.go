package redisstore_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
)

// conform runs the tests of all stores, each with a prefix of its own.
func conform(t *testing.T, o redisstore.Options) {
	storetest.Run(t, func(t *testing.T) store.Store {
		own := o
		own.Prefix, own.Timeout = prefix(t), 10*time.Second
		return openStore(t, own)
	})
}

// userOf returns a URL with another user.
func userOf(t *testing.T, address, name, password string) string {
	t.Helper()
	u, err := url.Parse(address)
	check(t, err)
	u.User = url.UserPassword(name, password)
	return u.String()
}

func TestStore(t *testing.T) {
	t.Parallel()
	conform(t, redisstore.Options{URL: redistest.Start(t, "requirepass secret").URL()})
}

func TestStoreUnix(t *testing.T) {
	t.Parallel()
	conform(t, redisstore.Options{URL: redistest.StartUnix(t, "requirepass secret").URL()})
}

// TestStoreTLS uses a client certificate, and a user with the rights that the
// store needs and no others.
func TestStoreTLS(t *testing.T) {
	t.Parallel()
	server, files := redistest.StartTLS(t, "user default off", "user gate on >secret ~t* resetchannels -@all "+
		"+get +set +del +hgetall +hmget +zadd +zrem +zrangebylex +lrange +evalsha +eval +info "+
		"+time +exists +hget +hset +hdel +hkeys +hexists +rpush +hincrby +pttl +xadd +xrange +xrevrange +xtrim +zcard +zcount +zlexcount +zmscore +zpopmin +zrange +zrangebyscore +zremrangebyscore +zscan +zscore +expire +expireat +unlink +lpush +ltrim +hello +client +ping")
	conform(t, redisstore.Options{URL: userOf(t, server.URL(), "gate", "secret"), CA: files.CA, Cert: files.Cert, Key: files.Key})
}

func TestStoreSentinel(t *testing.T) {
	t.Parallel()
	conform(t, redisstore.Options{URL: redistest.StartSentinel(t, 1, "requirepass secret").URL(), WaitReplicas: 1})
}

func TestStoreCluster(t *testing.T) {
	t.Parallel()
	conform(t, redisstore.Options{URL: redistest.StartCluster(t, 3, "requirepass secret").URL()})
}
