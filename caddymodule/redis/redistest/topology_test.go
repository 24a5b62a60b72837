package redistest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/redis/redistest"
)

func TestSentinel(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, 2)
	first := sentinel.Servers[0]
	replicated := func(master *redistest.Server, value string) {
		t.Helper()
		must(t, master, "SET", "key", value)
		if replicas := must(t, master, "WAIT", "2", "5000"); replicas != int64(2) {
			t.Errorf("%v replicas have the key, want 2", replicas)
		}
	}
	replicated(first, "1")
	second, err := sentinel.Failover()
	check(t, err)
	if got := must(t, second, "GET", "key"); got != "1" || second == first {
		t.Errorf("the key is %v after a planned failover", got)
	}
	check(t, first.AwaitReplica())
	replicated(second, "2")

	check(t, second.Kill())
	third, err := sentinel.AwaitMaster(second)
	check(t, err)
	if got := must(t, third, "GET", "key"); got != "2" {
		t.Errorf("the key is %v after the master was killed", got)
	}
	check(t, second.Restart())
	check(t, second.AwaitReplica())
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	from, err := cluster.Owner("{tag}0")
	check(t, err)
	to := cluster.Servers[0]
	if to == from {
		to = cluster.Servers[1]
	}
	const keys = 250 // more than one batch
	for i := range keys {
		must(t, from, "SET", fmt.Sprintf("{tag}%d", i), fmt.Sprint(i))
	}

	move, err := cluster.BeginMove("{tag}0", to)
	check(t, err)
	check(t, move.Keys("{tag}0"))
	wantError := func(server *redistest.Server, want string, command ...string) {
		t.Helper()
		if reply, err := server.Do(command...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v answered %v, %v, want %s", command, reply, err, want)
		}
	}
	wantError(from, "ASK ", "GET", "{tag}0")
	wantError(from, "TRYAGAIN", "MGET", "{tag}0", "{tag}1")
	if got := must(t, from, "GET", "{tag}1"); got != "1" {
		t.Errorf("a key that was not moved is %v", got)
	}
	check(t, move.Finish())
	for _, server := range cluster.Servers {
		if server != to {
			wantError(server, " "+to.Addr(), "GET", "{tag}1")
		}
	}
	if owner, err := cluster.Owner("{tag}0"); err != nil || owner != to {
		t.Errorf("the owner is %v, %v, want %v", owner, err, to)
	}
	for i := range keys {
		if got := must(t, to, "GET", fmt.Sprintf("{tag}%d", i)); got != fmt.Sprint(i) {
			t.Fatalf("key %d is %s after the move", i, got)
		}
	}
}
