package redistest

import (
	"fmt"
	"strconv"
	"strings"
)

// Move is a slot of a Cluster on its way from one server to another.
type Move struct {
	cluster  *Cluster
	slot     string
	From, To *Server
	toID     string
}

// BeginMove begins to move the slot of a key to another server. No key is moved
// yet: Keys and Finish do that. Meanwhile the old server answers ASK for keys that
// it does not have, and TRYAGAIN for commands whose keys are on both servers.
func (c *Cluster) BeginMove(key string, to *Server) (*Move, error) {
	from, err := c.Owner(key)
	if err != nil {
		return nil, err
	}
	slot, err := from.Do("CLUSTER", "KEYSLOT", key)
	if err != nil {
		return nil, err
	}
	m := &Move{cluster: c, slot: fmt.Sprint(slot), From: from, To: to}
	fromID, err := ask[string](from, "CLUSTER", "MYID")
	if err != nil {
		return nil, err
	}
	if m.toID, err = ask[string](to, "CLUSTER", "MYID"); err != nil {
		return nil, err
	}
	if _, err = to.Do("CLUSTER", "SETSLOT", m.slot, "IMPORTING", fromID); err == nil {
		_, err = from.Do("CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.toID)
	}
	return m, err
}

// Keys moves these keys, which must be in the slot.
func (m *Move) Keys(keys ...string) error {
	host, number, _ := strings.Cut(m.To.address, ":")
	milliseconds := strconv.FormatInt(patience.Milliseconds(), 10)
	command := []string{"MIGRATE", host, number, "", "0", milliseconds, "AUTH2", administrator, m.cluster.secret, "KEYS"}
	_, err := m.From.Do(append(command, keys...)...)
	return err
}

// Finish moves the keys that are left and gives the slot to the new server.
// When it returns, all servers know.
func (m *Move) Finish() error {
	for {
		reply, err := ask[[]any](m.From, "CLUSTER", "GETKEYSINSLOT", m.slot, "100")
		if err != nil {
			return err
		}
		if len(reply) == 0 {
			break
		}
		var keys []string
		for _, key := range reply {
			keys = append(keys, fmt.Sprint(key))
		}
		if err := m.Keys(keys...); err != nil {
			return err
		}
	}
	// First the new server, which must not lose the slot when the old one
	// forgets it.
	for _, server := range append([]*Server{m.To, m.From}, m.cluster.Servers...) {
		if _, err := server.Do("CLUSTER", "SETSLOT", m.slot, "NODE", m.toID); err != nil {
			return err
		}
	}
	return nil
}
