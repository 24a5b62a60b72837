package redistest

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// masterName is what the sentinels call the master.
const masterName = "mymaster"

// Sentinel is a master with replicas, and three sentinels. Two of the sentinels
// must agree.
type Sentinel struct {
	Servers   []*Server // the first one was the master at the start
	Sentinels []*Server
}

// StartSentinel launches a Sentinel for a test, and waits until all sentinels know
// all others. config has further lines for the master and the replicas.
func StartSentinel(t testing.TB, replicas int, config ...string) *Sentinel {
	t.Helper()
	need(t)
	s, secret, dir := &Sentinel{}, newSecret(), t.TempDir()
	start := func(name string, lines []string, arguments ...string) *Server {
		server, err := launch(setup{
			dir: filepath.Join(dir, name), secret: secret, scheme: "redis", arguments: arguments,
			lines: func(*port) ([]string, error) { return lines, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		end(t, server)
		return server
	}
	for i := range 1 + replicas {
		lines := dataLines([]string{"masteruser " + administrator, "masterauth " + secret})
		if i > 0 {
			lines = append(lines, "replicaof "+spaced(s.Servers[0].address))
		}
		s.Servers = append(s.Servers, start("server"+strconv.Itoa(i), append(lines, config...)))
	}
	for i := range 3 {
		s.Sentinels = append(s.Sentinels, start("sentinel"+strconv.Itoa(i), s.lines(secret, replicas), "--sentinel"))
	}
	// By default they look every ten seconds, and a demoted master answers clients
	// as a master that long. After four of the second period, a sentinel demotes a
	// master that it does not know. So the others must hear of a new master
	// sooner, also on a busy machine.
	for _, sentinel := range s.Sentinels {
		if _, err := sentinel.Do("SENTINEL", "DEBUG", "INFO-PERIOD", "100", "PUBLISH-PERIOD", "500"); err != nil {
			t.Fatal(err)
		}
	}
	if err := await("the sentinels to know all servers", s.complete); err != nil {
		t.Fatal(err)
	}
	return s
}

// lines returns the configuration of a sentinel.
func (s *Sentinel) lines(secret string, replicas int) []string {
	return []string{
		"sentinel announce-ip 127.0.0.1",
		fmt.Sprintf("sentinel monitor %s %s 2", masterName, spaced(s.Servers[0].address)),
		fmt.Sprintf("sentinel auth-user %s %s", masterName, administrator),
		fmt.Sprintf("sentinel auth-pass %s %s", masterName, secret),
		fmt.Sprintf("sentinel down-after-milliseconds %s 1000", masterName),
		fmt.Sprintf("sentinel failover-timeout %s 3000", masterName),
		fmt.Sprintf("sentinel parallel-syncs %s %d", masterName, max(1, replicas)),
	}
}

// spaced returns an address as Redis wants it in configurations: host port.
func spaced(address string) string { return strings.Replace(address, ":", " ", 1) }

// complete returns an error unless each sentinel knows all others.
func (s *Sentinel) complete() error {
	for _, sentinel := range s.Sentinels {
		if _, err := sentinel.Do("SENTINEL", "CKQUORUM", masterName); err != nil {
			return err
		}
		others, err := ask[[]any](sentinel, "SENTINEL", "SENTINELS", masterName)
		if err != nil {
			return err
		}
		replicas, err := ask[[]any](sentinel, "SENTINEL", "REPLICAS", masterName)
		if err != nil {
			return err
		}
		usable := 0
		for _, replica := range replicas {
			text := fmt.Sprint(replica) // names and values
			if strings.Contains(text, "flags slave ") && strings.Contains(text, "master-link-status ok ") {
				usable++
			}
		}
		if len(others) != len(s.Sentinels)-1 || usable != len(s.Servers)-1 {
			return fmt.Errorf("%s knows %d other sentinels and %d usable replicas", sentinel.address, len(others), usable)
		}
	}
	return nil
}

// URL returns the addresses of the sentinels as a URL, with the password that
// requirepass set for the servers.
func (s *Sentinel) URL() string {
	address := url.URL{Scheme: "redis+sentinel", User: s.Servers[0].userinfo(), Host: addresses(s.Sentinels), Path: "/" + masterName}
	return address.String()
}

func addresses(servers []*Server) string {
	var all []string
	for _, server := range servers {
		all = append(all, server.address)
	}
	return strings.Join(all, ",")
}

// masterOf returns the server that a sentinel calls the master.
func (s *Sentinel) masterOf(sentinel *Server) (*Server, error) {
	reply, err := ask[[]any](sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)
	if err != nil {
		return nil, err
	}
	for _, server := range s.Servers {
		if len(reply) == 2 && server.address == net.JoinHostPort(fmt.Sprint(reply[0]), fmt.Sprint(reply[1])) {
			return server, nil
		}
	}
	return nil, fmt.Errorf("%s calls %v the master", sentinel.address, reply)
}

// Failover makes a planned failover, and returns the new master.
func (s *Sentinel) Failover() (*Server, error) {
	first := s.Sentinels[0]
	before, err := s.masterOf(first)
	if err != nil {
		return nil, err
	}
	// A sentinel gives up if it has not looked at the replicas lately. Then it is
	// asked again. One reply must tell both that no failover runs and that the
	// master is the old one: a failover that ended meanwhile would be undone.
	err = await("a planned failover", func() error {
		reply, err := ask[[]any](first, "SENTINEL", "MASTER", masterName)
		if err != nil {
			return err
		}
		state := make(map[string]string)
		for pair := range slices.Chunk(reply, 2) {
			state[fmt.Sprint(pair[0])] = fmt.Sprint(pair[1])
		}
		if net.JoinHostPort(state["ip"], state["port"]) != before.address {
			return nil
		}
		if strings.Contains(state["flags"], "failover_in_progress") {
			return errors.New("it runs")
		}
		_, err = first.Do("SENTINEL", "FAILOVER", masterName)
		return cmp.Or(err, errors.New("it has begun"))
	})
	if err != nil {
		return nil, err
	}
	return s.AwaitMaster(before)
}

// AwaitMaster waits until all sentinels agree on a master that is not other, and
// this server is a master. It returns this server.
func (s *Sentinel) AwaitMaster(other *Server) (master *Server, err error) {
	err = await("a new master", func() (err error) {
		for i, sentinel := range s.Sentinels {
			named, err := s.masterOf(sentinel)
			if err != nil {
				return err
			}
			if named == other || i > 0 && named != master {
				return fmt.Errorf("%s calls %s the master", sentinel.address, named.address)
			}
			master = named
		}
		role, err := ask[[]any](master, "ROLE")
		if err == nil && role[0] != "master" {
			err = fmt.Errorf("%s has the role %v", master.address, role[0])
		}
		return err
	})
	return master, err
}

// AwaitReplica waits until a server is a replica that has the data of its
// master. The old master becomes one after a failover.
func (s *Server) AwaitReplica() error {
	return await("the replica "+s.address, func() error {
		role, err := ask[[]any](s, "ROLE")
		if err == nil && (role[0] != "slave" || role[3] != "connected") {
			err = fmt.Errorf("%s has the role %v", s.address, role)
		}
		return err
	})
}
