package site

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// claims has a claim for each address of a server with the gate. They outlive
// the configurations that use them.
var claims = caddy.NewUsagePool()

// claim is a socket in the abstract namespace, named after an address. Like a
// port, it belongs to a network namespace and ends with the process. Caddy lets
// several processes of a user listen on one port, and the kernel chooses one of
// them for each connection. If two gates run so by mistake, each gets a part of
// the calls and of the changes.
type claim struct{ end context.CancelFunc }

// Destruct implements caddy.Destructor.
func (c claim) Destruct() error {
	c.end()
	return nil
}

// ClaimAddress claims what a server listens on, until its configuration ends, and
// logs other gates that have claimed it. HTTP/3 has the address of TCP. The
// logger outlives configurations.
func ClaimAddress(ctx context.Context, listen string, log *zap.Logger) {
	address, _ := caddy.ParseNetworkAddress(listen) // after an error, without a port
	for _, one := range address.Expand() {
		resolved, err := net.ResolveTCPAddr(one.Network, one.JoinHostPort(0))
		if err != nil || resolved.Port == 0 {
			continue // a unix socket, or any free port
		}
		port, host := strconv.Itoa(resolved.Port), "*"
		if ip := resolved.AddrPort().Addr().Unmap(); ip.IsValid() && !ip.IsUnspecified() {
			host = ip.String()
		}
		key := port + "/" + host
		_, _, _ = claims.LoadOrNew(key, func() (caddy.Destructor, error) { return newClaim(port, host, log), nil })
		context.AfterFunc(ctx, func() { _, _ = claims.Delete(key) })
	}
}

// newClaim claims an address, and meets the gates that have claimed one that
// overlaps it. It lists them last: of two gates that start at once, one sees the
// other.
func newClaim(port, host string, log *zap.Logger) claim {
	const prefix = "@tollgate/"
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: prefix + port + "/" + host + "/" + rand.Text()})
	sockets, unread := os.ReadFile("/proc/self/net/unix")
	if err = errors.Join(err, unread); err != nil {
		log.Warn("cannot look for other gates on the same port", zap.String("port", port), zap.Error(err))
	}
	ctx, end := context.WithCancel(context.Background())
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	go func() {
		for ctx.Err() == nil {
			if conn, err := listener.AcceptUnix(); err == nil {
				go meet(ctx, conn, port, log, true)
			} else {
				time.Sleep(time.Second) // the process has too many files
			}
		}
	}()
	// The flags 00010000 are those of listeners.
	for _, other := range regexp.MustCompile(` 00010000 .* (`+prefix+port+`/(\S+)/\w+)\n`).FindAllStringSubmatch(string(sockets), -1) {
		if host == "*" || other[2] == "*" || host == other[2] {
			if conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: other[1]}); err == nil {
				go meet(ctx, conn, port, log, false)
			}
		}
	}
	return claim{end}
}

// meet logs the gate at the other end of a connection. The older one of the two
// decides: after five seconds it sends a byte, unless one of them is about to
// end, fails to start, or has left the port.
func meet(ctx context.Context, conn *net.UnixConn, port string, log *zap.Logger, older bool) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var peer *unix.Ucred
	if raw, err := conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { peer, _ = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	}
	if peer == nil || int(peer.Uid) != os.Geteuid() || int(peer.Pid) == os.Getpid() {
		return // processes of two users cannot share a port
	}
	wait := 10 * time.Second
	if older {
		wait = 5 * time.Second
	}
	_ = conn.SetReadDeadline(time.Now().Add(wait))
	n, err := conn.Read(make([]byte, 1))
	if older && os.IsTimeout(err) && !caddy.Exiting() {
		n, _ = conn.Write(make([]byte, 1))
	}
	if n != 1 {
		return
	}
	process := "/proc/" + strconv.Itoa(int(peer.Pid)) // absent for a process in another container
	command, _ := os.ReadFile(process + "/cmdline")
	directory, _ := os.Readlink(process + "/cwd")
	log.Error("another gate listens on the same port and gets a part of the requests: stop one of the two, or give each a port of its own",
		zap.String("port", port), zap.Int("pid", os.Getpid()), zap.Int32("other_pid", peer.Pid), zap.String("other_directory", directory),
		zap.String("other_command", strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))))
}
