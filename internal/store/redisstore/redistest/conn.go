package redistest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Do sends one command as an administrator, over a connection of its own, and
// returns the reply: a string, an int64, nil, or a []any of those. It gives up
// after ten seconds.
func (s *Server) Do(command ...string) (any, error) { return s.doWithin(10*time.Second, command...) }

func (s *Server) doWithin(timeout time.Duration, command ...string) (any, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.port}, Username: administrator, Password: s.secret, TLSConfig: s.tls,
		ForceSingleClient: true, DisableCache: true, DisableRetry: true, AlwaysRESP2: true, AlwaysPipelining: true,
		Dialer: net.Dialer{Timeout: timeout}, ConnWriteTimeout: timeout, RingScaleEachConn: 2,
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", s.port, err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	reply, err := client.Do(ctx, client.B().Arbitrary(command...).Build()).ToAny()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, fmt.Errorf("%s at %s: %w", command[0], s.port, err)
	}
	return reply, nil
}

// ask returns a reply that must be a string or a list.
func ask[T string | []any](s *Server, command ...string) (T, error) {
	reply, err := s.Do(command...)
	got, ok := reply.(T)
	if err == nil && !ok {
		err = fmt.Errorf("%s at %s answered %v, want a %T", command[0], s.port, reply, got)
	}
	return got, err
}

// Watch begins to collect what Sent returns.
func (s *Server) Watch() error {
	for _, command := range [][]string{
		{"CONFIG", "SET", "slowlog-max-len", "1000000", "slowlog-log-slower-than", "0"}, {"SLOWLOG", "RESET"},
	} {
		if _, err := s.Do(command...); err != nil {
			return err
		}
	}
	return nil
}

// Sent returns the commands that stores sent since Watch. Their connections have
// a name. Commands that scripts call are not among them.
func (s *Server) Sent() (commands []string, err error) {
	log, err := ask[[]any](s, "SLOWLOG", "GET", "-1")
	for i := len(log) - 1; i >= 0; i-- {
		// Number, time, duration, command, address and name.
		entry, _ := log[i].([]any)
		if len(entry) != 6 {
			return nil, fmt.Errorf("SLOWLOG at %s has %v", s.port, log[i])
		}
		// The client of Redis sends PING by itself.
		if command := strings.Trim(fmt.Sprint(entry[3]), "[]"); entry[5] != "" && command != "PING" {
			commands = append(commands, command)
		}
	}
	return commands, err
}
