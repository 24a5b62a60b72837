package redistest_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore/redistest"
)

// hosts returns the addresses in a URL of several servers.
func hosts(t *testing.T, address, scheme, path string) []string {
	t.Helper()
	parsed, err := url.Parse(address)
	check(t, err)
	if password, _ := parsed.User.Password(); parsed.Scheme != scheme || parsed.Path != path || password != "secret" {
		t.Errorf("the URL is %s", address)
	}
	return strings.Split(parsed.Host, ",")
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, 2, "requirepass secret")
	addresses := hosts(t, sentinel.URL(), "redis+sentinel", "/mymaster")
	if len(addresses) != 3 {
		t.Fatalf("the URL is %s", sentinel.URL())
	}
	first, err := sentinel.Master()
	check(t, err)
	if first != sentinel.Servers[0] {
		t.Errorf("the master is %s, want %s", first.Addr(), sentinel.Servers[0].Addr())
	}
	watch := first.Monitor(t)
	client := connect(t, rueidis.ClientOption{InitAddress: addresses, Password: "secret", Sentinel: rueidis.SentinelOption{MasterSet: "mymaster"}})
	if _, err := do(t, client, "SET", "key", "1"); err != nil {
		t.Fatal(err)
	}
	if replicas := must(t, first, "WAIT", "2", "5000"); replicas != int64(2) {
		t.Errorf("%v replicas have the key, want 2", replicas)
	}
	sent, _ := watch()
	for _, command := range sent {
		if strings.Contains(command, "__sentinel__") {
			t.Errorf("the monitor has a command of a sentinel: %s", command)
		}
	}

	check(t, sentinel.Hurry())
	check(t, sentinel.Failover())
	second, err := sentinel.AwaitMaster(first)
	check(t, err)
	if got := must(t, second, "GET", "key"); got != "1" {
		t.Errorf("the key is %v after a planned failover", got)
	}
	check(t, sentinel.AwaitReplica(first))
	must(t, second, "SET", "key", "2")
	if replicas := must(t, second, "WAIT", "2", "5000"); replicas != int64(2) {
		t.Errorf("%v replicas have the key after a planned failover, want 2", replicas)
	}

	check(t, second.Kill())
	third, err := sentinel.AwaitMaster(second)
	check(t, err)
	if got := must(t, third, "GET", "key"); got != "2" {
		t.Errorf("the key is %v after the master was killed", got)
	}
	check(t, second.Restart())
	check(t, sentinel.AwaitReplica(second))
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, "requirepass secret")
	addresses := hosts(t, cluster.URL(), "redis+cluster", "")
	if len(addresses) != 3 {
		t.Fatalf("the URL is %s", cluster.URL())
	}
	slot, err := cluster.Slot("{tag}0")
	check(t, err)
	from, err := cluster.Owner(slot)
	check(t, err)
	to := cluster.Servers[0]
	if to == from {
		to = cluster.Servers[1]
	}
	client := connect(t, rueidis.ClientOption{InitAddress: addresses, Password: "secret"})
	const keys = 250
	for i := range keys {
		if _, err := do(t, client, "SET", fmt.Sprintf("{tag}%d", i), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}

	move, err := cluster.BeginMove(slot, from, to)
	check(t, err)
	check(t, move.Keys("{tag}0"))
	for _, test := range []struct {
		command []string
		want    string
	}{
		{[]string{"GET", "{tag}0"}, fmt.Sprintf("ASK %d %s", slot, to.Addr())},
		{[]string{"MGET", "{tag}0", "{tag}1"}, "TRYAGAIN"},
	} {
		if reply, err := from.Do(test.command...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v answered %v, %v, want %s", test.command, reply, err, test.want)
		}
	}
	if got := must(t, from, "GET", "{tag}1"); got != "1" {
		t.Errorf("a key that was not moved is %v", got)
	}
	if got, err := do(t, client, "GET", "{tag}0"); err != nil || got != "0" {
		t.Errorf("a client got %s, %v for a moved key", got, err)
	}
	check(t, move.Finish())

	for _, server := range cluster.Servers {
		if reply, err := server.Do("GET", "{tag}1"); server != to && (err == nil || !strings.Contains(err.Error(), fmt.Sprintf("MOVED %d %s", slot, to.Addr()))) {
			t.Errorf("%s answered %v, %v after the move", server.Addr(), reply, err)
		}
	}
	if owner, err := cluster.Owner(slot); err != nil || owner != to {
		t.Errorf("the owner is %v, %v, want %v", owner, err, to)
	}
	for i := range keys {
		if got, err := do(t, client, "GET", fmt.Sprintf("{tag}%d", i)); err != nil || got != fmt.Sprint(i) {
			t.Fatalf("key %d is %s, %v after the move", i, got, err)
		}
	}
	check(t, cluster.MoveSlot(slot, to, from))
	if got := must(t, from, "GET", "{tag}1"); got != "1" {
		t.Errorf("the key is %v after the slot came back", got)
	}
}
