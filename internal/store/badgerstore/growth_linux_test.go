package badgerstore_test

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// TestGrowth overwrites rows again and again: the value log, which has no
// garbage collection, stays empty, and the use of the disk is limited.
func TestGrowth(t *testing.T) {
	t.Parallel()
	const batch, keys, most = 2000, 20_000, 160 << 20
	writes := 40_000
	if storetest.Long() {
		writes = 1_000_000
	}
	dir := t.TempDir()
	s := open(t, dir)
	rows := make([]login.Row, keys)
	for i := range rows {
		rows[i] = login.Row{Key: fmt.Appendf(nil, "row%07d", i), Value: fmt.Appendf(nil, "%050d", i), ExpiresAt: now.Add(time.Hour)}
	}
	for n := 0; n < writes; n += batch {
		if err := s.Save(t.Context(), rows[n%keys:][:batch]); err != nil {
			t.Fatalf("writing: %v", err)
		}
	}
	all, valueLog := int64(0), int64(0)
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		var stat unix.Stat_t
		if err != nil || unix.Stat(path, &stat) != nil {
			return nil // a table was compacted away meanwhile
		}
		all += stat.Blocks * 512
		if strings.HasSuffix(path, ".vlog") {
			valueLog += stat.Blocks * 512
		}
		return nil
	})
	if err != nil || all > most || valueLog > 64<<10 {
		t.Errorf("the disk holds %d bytes, %d of them the value log, %v, want at most %d", all, valueLog, err, most)
	}
}
