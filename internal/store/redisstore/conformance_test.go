package redisstore_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// form is a way to reach servers.
type form struct {
	name  string
	whole bool // whether all tests of stores run without --long
	start func(t *testing.T, user string) (redisstore.Options, []*redistest.Server)
}

func of(t *testing.T, address string, servers ...*redistest.Server) (redisstore.Options, []*redistest.Server) {
	return redisstore.Options{URL: userOf(t, address, "gate", "secret")}, servers
}

var forms = []form{
	{"Server", true, func(t *testing.T, user string) (redisstore.Options, []*redistest.Server) {
		server := redistest.Start(t, user)
		return of(t, server.URL(), server)
	}},
	{"Cluster", true, func(t *testing.T, user string) (redisstore.Options, []*redistest.Server) {
		cluster := redistest.StartCluster(t, 3, user)
		return of(t, cluster.URL(), cluster.Servers...)
	}},
	{"Unix", false, func(t *testing.T, user string) (redisstore.Options, []*redistest.Server) {
		server := redistest.StartUnix(t, user)
		return of(t, server.URL(), server)
	}},
	{"Password", false, func(t *testing.T, _ string) (redisstore.Options, []*redistest.Server) {
		return redisstore.Options{URL: redistest.Start(t, "requirepass secret").URL()}, nil
	}},
	{"TLS", false, func(t *testing.T, user string) (redisstore.Options, []*redistest.Server) {
		server, files := redistest.StartTLS(t, user)
		o, servers := of(t, server.URL(), server)
		o.CA, o.Cert, o.Key = files.CA, files.Cert, files.Key
		return o, servers
	}},
	{"Sentinel", false, func(t *testing.T, user string) (redisstore.Options, []*redistest.Server) {
		sentinel := redistest.StartSentinel(t, 1, user)
		o, servers := of(t, sentinel.URL(), sentinel.Servers...)
		o.WaitReplicas = 1
		return o, servers
	}},
}

// TestStore runs the tests of stores with the rights of examples/redis.conf. Each
// test has a prefix of its own. The server may refuse no command.
func TestStore(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../examples/redis.conf")
	check(t, err)
	user := regexp.MustCompile(`(?m)^user gate on >secret .*$`).FindString(string(page))
	if user == "" {
		t.Fatal("examples/redis.conf has no line with the rights of a user")
	}
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			t.Parallel()
			o, servers := form.start(t, user)
			t.Cleanup(func() {
				for _, server := range servers {
					for _, entry := range do(t, server, "ACL", "LOG").([]any) {
						t.Errorf("the server refused a command: %v", entry)
					}
				}
			})
			open := func(t *testing.T) *gate {
				own := o
				own.Prefix, own.Timeout = prefix(t), 10*time.Second
				for _, server := range servers {
					do(t, server, "ACL", "SETUSER", "gate", "~"+own.Prefix+":*")
				}
				return openStore(t, own)
			}
			smoke(t, open)
			if form.whole || storetest.Long() {
				storetest.Run(t, func(t *testing.T) book.Engine { return open(t).redis })
			}
		})
	}
}

// TestSeveralStores: stores of several gates count together as one.
func TestSeveralStores(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	storetest.RunCounting(t, func(t *testing.T) book.Engine {
		o := redisstore.Options{URL: server.URL(), Prefix: prefix(t)}
		return &several{Store: openStore(t, o).redis, others: []*redisstore.Store{openStore(t, o).redis, openStore(t, o).redis}}
	})
}

// several is a store that leaves each operation of counts to the next of several.
type several struct {
	*redisstore.Store
	others []*redisstore.Store
	turn   atomic.Int64
}

func (s *several) next() *redisstore.Store {
	all := append([]*redisstore.Store{s.Store}, s.others...)
	return all[s.turn.Add(1)%int64(len(all))]
}

func (s *several) Take(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) (bool, error) {
	return s.next().Take(ctx, call, limits, rooms)
}

func (s *several) Rooms(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) error {
	return s.next().Rooms(ctx, call, limits, rooms)
}

func (s *several) Settle(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room, cost int64, refund bool) error {
	return s.next().Settle(ctx, call, limits, rooms, cost, refund)
}

func (s *several) Credit(ctx context.Context, account string, keys []string, day calendar.Day, endpoint string, total int64) error {
	return s.next().Credit(ctx, account, keys, day, endpoint, total)
}

func (s *several) Counts(ctx context.Context, account, key string, first, last calendar.Day) ([]store.Count, error) {
	return s.next().Counts(ctx, account, key, first, last)
}

// smoke takes a call, changes the account, revokes the key, and opens the store
// again.
func smoke(t *testing.T, open func(*testing.T) *gate) {
	s := open(t)
	hash := newAccount(t, s, account)
	call := store.Call{Endpoint: "convert", Day: today()}
	want := func(plan string, admits bool) {
		t.Helper()
		admitted, grant, err := decide(t.Context(), s, hash, call, daily(1))
		if err != nil || admitted != admits || grant.Plan != plan {
			t.Errorf("a call: got %t, %+v, %v, want %t by the plan %s", admitted, grant, err, admits, plan)
		}
	}
	want("starter", true)
	_, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: account, Plan: "pro"})
	check(t, err)
	check(t, s.Close())
	s = open(t)
	want("pro", false)
	check(t, s.RevokeKey(t.Context(), account, "key_"+account, time.Now()))
	if _, grant, err := decide(t.Context(), s, hash, call, nil); !errors.Is(err, store.ErrNoGrant) {
		t.Errorf("a revoked key: got %+v, %v, want %v", grant, err, store.ErrNoGrant)
	}
}

// userOf returns a URL with another user.
func userOf(t *testing.T, address, name, password string) string {
	t.Helper()
	u, err := url.Parse(address)
	check(t, err)
	u.User = url.UserPassword(name, password)
	return u.String()
}
