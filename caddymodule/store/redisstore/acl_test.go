package redisstore_test

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
)

// leastUser returns the line of docs/scaling.md with the rights that a gate
// needs.
func leastUser(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/scaling.md")
	check(t, err)
	line := regexp.MustCompile(`(?m)^user gate on >secret .*$`).FindString(string(page))
	if line == "" {
		t.Fatal("docs/scaling.md has no line with the rights of a user")
	}
	return line
}

// denied fails the test if a server refused a command of a user.
func denied(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	for _, server := range servers {
		log, err := server.Do("ACL", "LOG")
		check(t, err)
		for _, entry := range log.([]any) {
			t.Errorf("the server refused a command: %v", entry)
		}
	}
}

// TestLeastUser runs the store as a user with the rights of docs/scaling.md.
func TestLeastUser(t *testing.T) {
	t.Parallel()
	line := leastUser(t)
	server := redistest.Start(t, line)
	t.Cleanup(func() { denied(t, server) })
	url := userOf(t, server.URL(), "gate", "secret")
	storetest.Run(t, func(t *testing.T) store.Store {
		own := prefix(t)
		_, err := server.Do("ACL", "SETUSER", "gate", "~"+own+":*")
		check(t, err)
		return openStore(t, redisstore.Options{URL: url, Prefix: own, Timeout: 10 * time.Second})
	})
}

// TestLeastUserOfReplicas: the same with Sentinel and a cluster.
func TestLeastUserOfReplicas(t *testing.T) {
	t.Parallel()
	line := leastUser(t)
	t.Run("Sentinel", func(t *testing.T) {
		t.Parallel()
		sentinel := redistest.StartSentinel(t, 1, line)
		s := openStore(t, redisstore.Options{URL: userOf(t, sentinel.URL(), "gate", "secret"), Timeout: 10 * time.Second, WaitReplicas: 1})
		await(t, "a replica", func() bool { return putAccount(t, s) == nil })
		check(t, takeOne(t, s))
		denied(t, sentinel.Servers...)
	})
	t.Run("Cluster", func(t *testing.T) {
		t.Parallel()
		cluster := redistest.StartCluster(t, 3, line)
		s := openStore(t, redisstore.Options{URL: userOf(t, cluster.URL(), "gate", "secret"), Timeout: 10 * time.Second})
		check(t, putAccount(t, s))
		check(t, takeOne(t, s))
		denied(t, cluster.Servers...)
	})
}

func putAccount(t *testing.T, s *redisstore.Store) error {
	t.Helper()
	_, err := storetest.PutAccount(t.Context(), s, store.Account{ID: account, Plan: "starter"})
	return err
}
