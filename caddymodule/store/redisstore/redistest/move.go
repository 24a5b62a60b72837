package redistest

import (
	"fmt"
	"net"
	"strconv"
)

// Move is a slot of a Cluster on its way from one server to another.
type Move struct {
	cluster  *Cluster
	slot     string
	from, to *Server
	toID     string
}

// MoveSlot moves a slot with its keys to another server.
func (c *Cluster) MoveSlot(slot int, from, to *Server) error {
	move, err := c.BeginMove(slot, from, to)
	if err != nil {
		return err
	}
	return move.Finish()
}

// BeginMove begins to move a slot. No key is moved yet: Keys and Finish do
// that. Meanwhile the old server answers ASK for keys that it does not have,
// and TRYAGAIN for commands whose keys are on both servers.
func (c *Cluster) BeginMove(slot int, from, to *Server) (*Move, error) {
	move := &Move{cluster: c, slot: strconv.Itoa(slot), from: from, to: to}
	fromID, err := from.id()
	if err != nil {
		return nil, err
	}
	if move.toID, err = to.id(); err != nil {
		return nil, err
	}
	if _, err := to.Do("CLUSTER", "SETSLOT", move.slot, "IMPORTING", fromID); err != nil {
		return nil, err
	}
	if _, err := from.Do("CLUSTER", "SETSLOT", move.slot, "MIGRATING", move.toID); err != nil {
		return nil, err
	}
	return move, nil
}

// Keys moves these keys, which must be in the slot.
func (m *Move) Keys(keys ...string) error {
	host, port, err := net.SplitHostPort(m.to.address)
	if err != nil {
		return err
	}
	milliseconds := strconv.FormatInt(patience.Milliseconds(), 10)
	command := []string{"MIGRATE", host, port, "", "0", milliseconds, "AUTH2", administrator, m.cluster.secret, "KEYS"}
	_, err = m.from.Do(append(command, keys...)...)
	return err
}

// Finish moves the keys that are left and gives the slot to the new server.
// When it returns, all servers know.
func (m *Move) Finish() error {
	const batch = 100
	for {
		reply, err := m.from.list("CLUSTER", "GETKEYSINSLOT", m.slot, strconv.Itoa(batch))
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
	servers := []*Server{m.to, m.from}
	for _, server := range m.cluster.Servers {
		if server != m.to && server != m.from {
			servers = append(servers, server)
		}
	}
	for _, server := range servers {
		if _, err := server.Do("CLUSTER", "SETSLOT", m.slot, "NODE", m.toID); err != nil {
			return err
		}
	}
	return nil
}
