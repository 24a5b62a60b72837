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

// slots is the number of slots of a Redis Cluster.
const slots = 16384

// Cluster is a Redis Cluster of masters without replicas.
type Cluster struct {
	Servers []*Server

	secret string
}

// LaunchCluster starts the servers of a cluster in directories below dir and
// waits until all of them know all slots. config has further lines for each
// server. The caller must call Kill.
func LaunchCluster(dir string, nodes int, config ...string) (*Cluster, error) {
	c := &Cluster{secret: newSecret()}
	if err := c.launch(dir, nodes, config); err != nil {
		return nil, errors.Join(err, c.Kill())
	}
	return c, nil
}

// StartCluster launches a Cluster for a test.
func StartCluster(t testing.TB, nodes int, config ...string) *Cluster {
	t.Helper()
	need(t)
	c, err := LaunchCluster(t.TempDir(), nodes, config...)
	if err != nil {
		t.Fatal(err)
	}
	end(t, c.Servers...)
	return c
}

func (c *Cluster) launch(dir string, nodes int, config []string) error {
	var buses []string
	for i := range nodes {
		var bus int
		server, err := launch(setup{
			dir: filepath.Join(dir, "node"+strconv.Itoa(i)), secret: c.secret, scheme: "redis",
			lines: func(int) (_ []string, err error) {
				bus, err = freePort()
				return dataLines(append([]string{
					"cluster-enabled yes",
					fmt.Sprintf("cluster-port %d", bus),
					"cluster-announce-ip 127.0.0.1",
					"cluster-node-timeout 2000",
				}, config...)), err
			},
		})
		if err != nil {
			return err
		}
		c.Servers, buses = append(c.Servers, server), append(buses, strconv.Itoa(bus))
	}
	for i, server := range c.Servers {
		first, last := strconv.Itoa(i*slots/nodes), strconv.Itoa((i+1)*slots/nodes-1)
		if _, err := server.Do("CLUSTER", "ADDSLOTSRANGE", first, last); err != nil {
			return err
		}
		// Equal epochs would be resolved only with time.
		if _, err := server.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
	}
	// Every server meets every other: gossip alone takes seconds.
	for i, server := range c.Servers {
		for j, other := range c.Servers[:i] {
			host, port, err := net.SplitHostPort(other.address)
			if err != nil {
				return err
			}
			if _, err := server.Do("CLUSTER", "MEET", host, port, buses[j]); err != nil {
				return err
			}
		}
	}
	return await("the cluster", c.complete)
}

// complete returns an error unless each server knows the owner of each slot.
func (c *Cluster) complete() error {
	for _, server := range c.Servers {
		info, err := server.ask("CLUSTER", "INFO")
		if err != nil {
			return err
		}
		for _, line := range []string{"cluster_state:ok", "cluster_known_nodes:" + strconv.Itoa(len(c.Servers)), "cluster_size:" + strconv.Itoa(len(c.Servers))} {
			if !strings.Contains(info, line+"\r\n") {
				return fmt.Errorf("%s has no %s in\n%s", server.address, line, info)
			}
		}
	}
	return nil
}

// URL returns the addresses of the servers as a URL, with the password that
// requirepass set.
func (c *Cluster) URL() string {
	return (&url.URL{Scheme: "redis+cluster", User: c.Servers[0].userinfo(), Host: addresses(c.Servers)}).String()
}

// Slot returns the slot of a key.
func (c *Cluster) Slot(key string) (int, error) {
	reply, err := c.Servers[0].Do("CLUSTER", "KEYSLOT", key)
	slot, ok := reply.(int64)
	if err == nil && !ok {
		err = fmt.Errorf("the slot of %q is %v", key, reply)
	}
	return int(slot), err
}

// Owner returns the server that has a slot.
func (c *Cluster) Owner(slot int) (*Server, error) {
	for _, server := range c.Servers {
		mine, err := server.owns(slot)
		if err != nil || mine {
			return server, err
		}
	}
	return nil, fmt.Errorf("no server has slot %d", slot)
}

// owns tells whether a server has a slot, by its own view.
func (s *Server) owns(slot int) (bool, error) {
	id, err := s.id()
	if err != nil {
		return false, err
	}
	ranges, err := s.list("CLUSTER", "SLOTS")
	if err != nil {
		return false, err
	}
	for _, reply := range ranges {
		// First slot, last slot, and the master: address, port, id.
		item, ok := reply.([]any)
		if !ok || len(item) < 3 {
			return false, fmt.Errorf("CLUSTER SLOTS at %s has %v", s.address, reply)
		}
		first, _ := item[0].(int64)
		last, _ := item[1].(int64)
		master, _ := item[2].([]any)
		if len(master) < 3 {
			return false, fmt.Errorf("CLUSTER SLOTS at %s has %v", s.address, reply)
		}
		if int(first) <= slot && slot <= int(last) {
			return master[2] == id, nil
		}
	}
	return false, nil
}

// id returns the name that the cluster gave to a server.
func (s *Server) id() (string, error) { return s.ask("CLUSTER", "MYID") }

// Kill kills all servers.
func (c *Cluster) Kill() error { return killAll(c.Servers) }
