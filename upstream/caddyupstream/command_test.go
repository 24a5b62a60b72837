package caddyupstream_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"caddy": caddycmd.Main})
}

// TestCommand runs the scripts with Caddy as a process of its own. Their
// further command is
//
//	await COMMAND...  repeats a command until it succeeds
func TestCommand(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			// The path of a socket has at most 108 bytes.
			sockets, err := os.MkdirTemp("", "tollgate")
			if err != nil {
				return err
			}
			env.Defer(func() { os.RemoveAll(sockets) })
			// Else each command with the race detector ends a second later.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("CADDY_ADMIN", "unix/"+filepath.Join(sockets, "admin.sock"))
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			env.Setenv("XDG_DATA_HOME", filepath.Join(env.WorkDir, "share"))
			env.Setenv("TOLLGATE_DATA", filepath.Join(env.WorkDir, "data"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"await": await},
	})
}

func await(ts *testscript.TestScript, _ bool, args []string) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := ts.Exec(args[0], args[1:]...)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%v: %v", args, err)
		}
	}
}
