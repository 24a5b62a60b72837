package caddymodule_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tollgate/tollgate/internal/feature/backup"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// stalledBackup starts a backup of more than the buffers between a gate and its
// client hold, and waits until the gate waits for the client.
func stalledBackup(t *testing.T, c *controlledCaddy) *http.Response {
	t.Helper()
	db, err := app(t).Book()
	if err != nil {
		t.Fatal(err)
	}
	random := make([]byte, 25_000) // cannot be compressed
	for range 20 {
		err := db.ChangeOne(t.Context(), time.Now(), "acc_1", func(a *book.Account) error {
			a.Exists, a.Plan = true, "starter"
			for range 5 {
				_, _ = rand.Read(random) // never fails
				a.Record(store.Entry{At: time.Now(), ActorKind: "admin", Action: "account.set", After: []byte(`"` + hex.EncodeToString(random) + `"`)})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(c.admin, "unix/"))
	}}
	t.Cleanup(transport.CloseIdleConnections)
	response, err := (&http.Client{Transport: transport}).Get("http://127.0.0.1/tollgate/backup")
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("got %v, %v", response, err)
	}
	t.Cleanup(func() { response.Body.Close() })
	eventually(t, "a backup that waits for its client", func() bool {
		stacks := make([]byte, 1<<20)
		for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
			if strings.Contains(stack, "[IO wait") && strings.Contains(stack, "caddymodule.serveBackup") {
				return true
			}
		}
		return false
	})
	return response
}

// A client that asks for a backup and does not read it must not keep the gate
// from closing its store.
func TestStopDuringBackup(t *testing.T) {
	c := newControlledCaddy(t)
	if err := c.load(t, c.gateApp("starter")); err != nil {
		t.Fatal(err)
	}
	response := stalledBackup(t, c)
	if err := caddy.Stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}
	db, err := badgerstore.Open(filepath.Join(c.dir, "gate"), badgerstore.Options{Reserve: 1 << 20})
	if err != nil {
		t.Fatalf("opening the store after the stop: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if _, err := io.Copy(io.Discard, response.Body); err == nil {
		t.Error("a backup that was ended looks complete")
	}
}

// A reload keeps the store open, and ends no backup.
func TestReloadDuringBackup(t *testing.T) {
	c := newControlledCaddy(t)
	if err := c.load(t, c.gateApp("starter")); err != nil {
		t.Fatal(err)
	}
	response := stalledBackup(t, c)
	if err := c.load(t, c.gateApp("gold")); err != nil {
		t.Fatal(err)
	}
	var content bytes.Buffer
	if _, err := content.ReadFrom(response.Body); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "backup")
	if err := os.WriteFile(path, content.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := backup.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil || file.Rows < 101 || file.Accounts != 1 {
		t.Errorf("got %d rows, %v, want an account and 100 entries", file.Rows, err)
	}
}

// A backup that fails at its beginning is an answer with a reason, and leaves
// no file.
func TestFailedBackup(t *testing.T) {
	c, db := newControlledCaddy(t), newTestStore(t, nil)
	if err := c.load(t, db.use(t, c.gateApp("starter"))); err != nil {
		t.Fatal(err)
	}
	db.fail(errors.New("no such disk"))
	dir := t.TempDir()
	_, stderr, status := c.command(t, "backup", filepath.Join(dir, "backup"))
	if want := "The gate cannot read its store now. Its log says why."; status != 1 || !strings.Contains(stderr, want) {
		t.Errorf("got %d, %q, want 1 and %q", status, stderr, want)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the command leaves %v, %v", left, err)
	}
}

// deadlines records the deadlines of the answer.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetWriteDeadline(end time.Time) error {
	d.set = append(d.set, end)
	return nil
}

// The deadline of a backup does not remain for later requests of its connection.
func TestBackupResetsDeadline(t *testing.T) {
	c := newControlledCaddy(t)
	if err := c.load(t, c.gateApp("starter")); err != nil {
		t.Fatal(err)
	}
	answer := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	request := httptest.NewRequest(http.MethodGet, "/tollgate/backup", nil)
	if err := adminRoute("/tollgate/backup").ServeHTTP(answer, request); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("got %d, %v", answer.Code, err)
	}
	if n := len(answer.set); n < 2 || answer.set[0].Before(time.Now()) || !answer.set[n-1].IsZero() {
		t.Errorf("the deadlines are %v, want some and then none", answer.set)
	}
}

// TestInvalidBackup: what is no complete backup gets no name.
func TestInvalidBackup(t *testing.T) {
	c := newControlledCaddy(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/gzip")
		_, _ = io.WriteString(w, "a part of a backup")
	}))
	t.Cleanup(server.Close)
	c.admin = server.Listener.Addr().String()
	file := filepath.Join(t.TempDir(), "backup")
	if _, complaints, status := c.command(t, "backup", file); status != 1 || !strings.Contains(complaints, "verifying the backup") {
		t.Errorf("got %d, %q", status, complaints)
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file: %v, want none", err)
	}
}
