package redistest

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
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

// LaunchSentinel starts a master, replicas and three sentinels in
// directories below dir, and waits until all sentinels know all others.
// config has further lines for the master and the replicas. The caller must
// call Kill.
func LaunchSentinel(dir string, replicas int, config ...string) (*Sentinel, error) {
	s := &Sentinel{}
	err := s.launch(dir, replicas, config)
	if err != nil {
		return nil, errors.Join(err, s.Kill())
	}
	return s, nil
}

// StartSentinel launches a Sentinel for a test.
func StartSentinel(t testing.TB, replicas int, config ...string) *Sentinel {
	t.Helper()
	need(t)
	s, err := LaunchSentinel(t.TempDir(), replicas, config...)
	if err != nil {
		t.Fatal(err)
	}
	end(t, s.Sentinels...)
	end(t, s.Servers...)
	return s
}

func (s *Sentinel) launch(dir string, replicas int, config []string) error {
	secret := newSecret()
	common := []string{"masteruser " + administrator, "masterauth " + secret}
	for i := range 1 + replicas {
		own := common
		if i > 0 {
			own = append([]string{"replicaof " + spaced(s.Servers[0].address)}, common...)
		}
		server, err := launch(setup{
			dir: filepath.Join(dir, "server"+strconv.Itoa(i)), secret: secret, scheme: "redis",
			lines: func(int) ([]string, error) { return dataLines(append(own, config...)), nil },
		})
		if err != nil {
			return err
		}
		s.Servers = append(s.Servers, server)
	}
	for i := range 3 {
		sentinel, err := launch(setup{
			dir: filepath.Join(dir, "sentinel"+strconv.Itoa(i)), secret: secret, scheme: "redis", arguments: []string{"--sentinel"},
			lines: func(int) ([]string, error) { return s.lines(secret, replicas), nil },
		})
		if err != nil {
			return err
		}
		s.Sentinels = append(s.Sentinels, sentinel)
	}
	// By default they would need more than ten seconds.
	if err := s.Hurry(); err != nil {
		return err
	}
	if err := await("the sentinels to know all servers", s.complete); err != nil {
		return err
	}
	// The periods of Redis.
	return s.periods("10000", "2000")
}

// Hurry lets the sentinels look at the servers and talk to each other several
// times a second. By default they look every ten seconds, and a demoted
// master answers clients as a master that long.
//
// After four of the second period, a sentinel demotes a master that it does not
// know. So the others must hear of a new master sooner, also on a busy machine.
func (s *Sentinel) Hurry() error { return s.periods("100", "500") }

// periods sets how often sentinels look at servers and talk to each other,
// in milliseconds.
func (s *Sentinel) periods(look, talk string) error {
	for _, sentinel := range s.Sentinels {
		if _, err := sentinel.Do("SENTINEL", "DEBUG", "INFO-PERIOD", look, "PUBLISH-PERIOD", talk); err != nil {
			return err
		}
	}
	return nil
}

// lines returns the configuration of a sentinel.
func (s *Sentinel) lines(secret string, replicas int) []string {
	return []string{
		// Monitor leaves out what comes from there: see source.
		"bind-source-addr " + source,
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

// follows returns an error unless the server is a replica that has the data
// of its master.
func (s *Server) follows() error {
	role, err := s.list("ROLE")
	if err == nil && (role[0] != "slave" || role[3] != "connected") {
		err = fmt.Errorf("%s has the role %v", s.address, role)
	}
	return err
}

// complete returns an error unless each sentinel knows all others.
func (s *Sentinel) complete() error {
	for _, sentinel := range s.Sentinels {
		if _, err := sentinel.Do("SENTINEL", "CKQUORUM", masterName); err != nil {
			return err
		}
		others, err := sentinel.list("SENTINEL", "SENTINELS", masterName)
		if err != nil {
			return err
		}
		if len(others) != len(s.Sentinels)-1 {
			return fmt.Errorf("%s knows %d other sentinels", sentinel.address, len(others))
		}
		replicas, err := sentinel.list("SENTINEL", "REPLICAS", masterName)
		if err != nil {
			return err
		}
		usable := 0
		for _, replica := range replicas {
			fields, err := pairs(replica)
			if err != nil {
				return err
			}
			if fields["flags"] == "slave" && fields["master-link-status"] == "ok" {
				usable++
			}
		}
		if usable != len(s.Servers)-1 {
			return fmt.Errorf("%s knows %d usable replicas", sentinel.address, usable)
		}
	}
	return nil
}

// pairs returns a list of names and values as a map.
func pairs(reply any) (map[any]any, error) {
	list, ok := reply.([]any)
	if !ok || len(list)%2 != 0 {
		return nil, fmt.Errorf("got %v, want names with values", reply)
	}
	fields := map[any]any{}
	for i := 0; i < len(list); i += 2 {
		fields[list[i]] = list[i+1]
	}
	return fields, nil
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

// Master returns the server that all sentinels that run call the master.
func (s *Sentinel) Master() (*Server, error) {
	var master *Server
	for _, sentinel := range s.Sentinels {
		if !sentinel.runs() {
			continue
		}
		named, err := s.masterOf(sentinel)
		if err != nil {
			return nil, err
		}
		if master != nil && master != named {
			return nil, fmt.Errorf("sentinels disagree: the master is %s or %s", master.address, named.address)
		}
		master = named
	}
	if master == nil {
		return nil, errors.New("no sentinel runs")
	}
	return master, nil
}

func (s *Sentinel) masterOf(sentinel *Server) (*Server, error) {
	reply, err := sentinel.list("SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)
	if err != nil {
		return nil, err
	}
	if len(reply) != 2 {
		return nil, fmt.Errorf("%s calls %v the master", sentinel.address, reply)
	}
	address := net.JoinHostPort(fmt.Sprint(reply[0]), fmt.Sprint(reply[1]))
	for _, server := range s.Servers {
		if server.address == address {
			return server, nil
		}
	}
	return nil, fmt.Errorf("%s calls an unknown server %s the master", sentinel.address, address)
}

// Failover makes a planned failover. It waits until the sentinel that it asks
// has finished: AwaitMaster waits for all.
func (s *Sentinel) Failover() error {
	for _, sentinel := range s.Sentinels {
		if sentinel.runs() {
			return sentinel.failover()
		}
	}
	return errors.New("no sentinel runs")
}

// failover asks again if the sentinel gives up. It gives up if it has not
// looked at the replicas lately.
func (s *Server) failover() error {
	before, _, err := s.watched()
	if err != nil {
		return err
	}
	var refused error
	err = await("a planned failover", func() error {
		master, flags, err := s.watched()
		if err != nil || master != before {
			return err
		}
		if strings.Contains(flags, "failover_in_progress") {
			return errors.New("it is in progress")
		}
		_, err = s.Do("SENTINEL", "FAILOVER", masterName)
		var reply ReplyError
		if errors.As(err, &reply) && !strings.HasPrefix(string(reply), "NOGOODSLAVE") && !strings.HasPrefix(string(reply), "INPROG") {
			refused = err
			return nil
		}
		if err == nil {
			err = errors.New("it has begun")
		}
		return err
	})
	if err != nil {
		return err
	}
	return refused
}

// watched returns the address of the master that a sentinel watches, and its
// flags. Until a failover has ended, this is the old master. The reply to
// GET-MASTER-ADDR-BY-NAME is the new one before that.
func (s *Server) watched() (address, flags string, err error) {
	reply, err := s.Do("SENTINEL", "MASTER", masterName)
	if err != nil {
		return "", "", err
	}
	fields, err := pairs(reply)
	return fmt.Sprintf("%v:%v", fields["ip"], fields["port"]), fmt.Sprint(fields["flags"]), err
}

// AwaitMaster waits until all running sentinels agree on a master that is not
// other, and this server is a master. It returns this server.
func (s *Sentinel) AwaitMaster(other *Server) (*Server, error) {
	var master *Server
	err := await("a new master", func() (err error) {
		if master, err = s.Master(); err != nil {
			return err
		}
		if master == other {
			return fmt.Errorf("the master is still %s", other.address)
		}
		role, err := master.list("ROLE")
		if err == nil && role[0] != "master" {
			err = fmt.Errorf("%s has the role %v", master.address, role[0])
		}
		return err
	})
	return master, err
}

// AwaitReplica waits until a server is a replica that has the data of its
// master. The old master becomes one after a failover: without Hurry, this
// takes more than ten seconds.
func (s *Sentinel) AwaitReplica(server *Server) error {
	return await("the replica "+server.address, server.follows)
}

// Kill kills all servers and sentinels.
func (s *Sentinel) Kill() error { return killAll(s.Sentinels, s.Servers) }
