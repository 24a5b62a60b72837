package redistest

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// source is the address of this side of the connections of Do, if the system
// has it. Monitor leaves out commands from this address.
const source = "127.0.0.2"

// ReplyError is an error that a server replied.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// Do sends one command as an administrator and returns the reply: a string,
// an int64, nil, or a []any of those. An error reply is a ReplyError. Do
// gives up after ten seconds.
//
// It uses a connection of its own, and sends only AUTH before the command. A
// client for general use sends more, and shares connections that a test may
// break.
func (s *Server) Do(command ...string) (any, error) { return s.doWithin(10*time.Second, command...) }

func (s *Server) doWithin(timeout time.Duration, command ...string) (any, error) {
	c, err := s.dial(timeout)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	reply, err := c.do(command...)
	if err != nil {
		return nil, fmt.Errorf("%s at %s: %w", command[0], s.port, err)
	}
	return reply, nil
}

// conn is a connection of an administrator.
type conn struct {
	net.Conn
	reader *bufio.Reader
}

// dial returns a connection that fails after a time.
func (s *Server) dial(timeout time.Duration) (*conn, error) {
	dialer := &net.Dialer{Timeout: timeout}
	if runtime.GOOS == "linux" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
	}
	opened, err := dialer.Dial("tcp", s.port)
	if err != nil {
		return nil, err
	}
	if s.tls != nil {
		opened = tls.Client(opened, s.tls)
	}
	c := &conn{opened, bufio.NewReader(opened)}
	err = c.SetDeadline(time.Now().Add(timeout))
	if err == nil {
		_, err = c.do("AUTH", administrator, s.secret)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("logging in to %s: %w", s.port, err)
	}
	return c, nil
}

func (c *conn) do(command ...string) (any, error) {
	var text strings.Builder
	fmt.Fprintf(&text, "*%d\r\n", len(command))
	for _, argument := range command {
		fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(argument), argument)
	}
	if _, err := io.WriteString(c, text.String()); err != nil {
		return nil, err
	}
	reply, err := c.reply()
	if failed, ok := reply.(ReplyError); ok {
		return nil, failed
	}
	return reply, err
}

// reply reads a reply in RESP2
// (https://redis.io/docs/latest/develop/reference/protocol-spec).
func (c *conn) reply() (any, error) {
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("a reply has an empty line")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return ReplyError(rest), nil
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("reading the reply %q: %w", line, err)
	}
	switch {
	case kind == ':':
		return n, nil
	case kind == '$' && n < 0, kind == '*' && n < 0:
		return nil, nil
	case kind == '$':
		text := make([]byte, n+2)
		_, err := io.ReadFull(c.reader, text)
		return string(text[:n]), err
	case kind == '*':
		return c.array(n)
	}
	return nil, fmt.Errorf("unknown reply %q", line)
}

func (c *conn) array(n int64) ([]any, error) {
	items := make([]any, n)
	for i := range items {
		var err error
		if items[i], err = c.reply(); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// ask returns a reply that must be a string.
func (s *Server) ask(command ...string) (string, error) {
	reply, err := s.Do(command...)
	if err != nil {
		return "", err
	}
	text, ok := reply.(string)
	if !ok {
		return "", fmt.Errorf("%s at %s answered %v, want a string", command[0], s.port, reply)
	}
	return text, nil
}

// list returns a reply that must be a list.
func (s *Server) list(command ...string) ([]any, error) {
	reply, err := s.Do(command...)
	if err != nil {
		return nil, err
	}
	items, ok := reply.([]any)
	if !ok {
		return nil, fmt.Errorf("%s at %s answered %v, want a list", command[0], s.port, reply)
	}
	return items, nil
}
