package redistest

import (
	"fmt"
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

// StartCluster launches the servers of a cluster for a test, and waits until all
// of them know all slots. config has further lines for each server.
func StartCluster(t testing.TB, nodes int, config ...string) *Cluster {
	t.Helper()
	need(t)
	c := &Cluster{secret: newSecret()}
	dir := t.TempDir()
	var buses []string
	for i := range nodes {
		bus, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		server, err := launch(setup{
			dir: filepath.Join(dir, "node"+strconv.Itoa(i)), secret: c.secret, scheme: "redis",
			lines: func(*port) ([]string, error) {
				return dataLines(append([]string{
					"cluster-enabled yes",
					fmt.Sprintf("cluster-port %d", bus.Number),
					"cluster-announce-ip 127.0.0.1",
					"cluster-node-timeout 2000",
				}, config...)), nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		end(t, server)
		server.locks = append(server.locks, bus)
		c.Servers, buses = append(c.Servers, server), append(buses, strconv.Itoa(bus.Number))
	}
	if err := c.join(buses); err != nil {
		t.Fatal(err)
	}
	return c
}

// join makes a cluster of the servers.
func (c *Cluster) join(buses []string) error {
	for i, server := range c.Servers {
		first, last := strconv.Itoa(i*slots/len(c.Servers)), strconv.Itoa((i+1)*slots/len(c.Servers)-1)
		commands := [][]string{
			{"CLUSTER", "ADDSLOTSRANGE", first, last},
			// Equal epochs would be resolved only with time.
			{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)},
		}
		// Every server meets every other: gossip alone takes seconds.
		for j, other := range c.Servers[:i] {
			host, number, _ := strings.Cut(other.address, ":")
			commands = append(commands, []string{"CLUSTER", "MEET", host, number, buses[j]})
		}
		for _, command := range commands {
			if _, err := server.Do(command...); err != nil {
				return err
			}
		}
	}
	return await("the cluster", c.complete)
}

// complete returns an error unless each server knows the owner of each slot.
func (c *Cluster) complete() error {
	for _, server := range c.Servers {
		info, err := ask[string](server, "CLUSTER", "INFO")
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

// Owner returns the server that has the slot of a key: the others answer MOVED.
func (c *Cluster) Owner(key string) (*Server, error) {
	var err error
	for _, server := range c.Servers {
		if _, err = server.Do("EXISTS", key); err == nil {
			return server, nil
		}
	}
	return nil, err
}
