package login_test

import (
	"context"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/login"
)

// leavingLate are cells of a server that answer a call only if its context has not
// ended. The client of the attempt disconnects during the first change.
type leavingLate struct {
	login.Cells
	leave func()
}

func (l leavingLate) Swap(ctx context.Context, key login.CellKey, old login.Cell, change login.Change) (login.Cell, bool, error) {
	l.leave()
	if err := ctx.Err(); err != nil {
		return login.Cell{}, false, err
	}
	return l.Cells.Swap(ctx, key, old, change)
}

// TestClientLeaves: an attempt whose client disconnects counts for the client
// and for the account.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	memory := login.NewMemory(time.Now, nil)
	ctx, leave := context.WithCancel(t.Context())
	client, account := login.ClientOf("192.0.2.1"), login.AccountOf("ada@example.com")
	limits := login.Limits{PerClient: 1}
	if a, wait, err := login.New(leavingLate{memory, leave}).Reserve(ctx, limits, client, account); a == nil || err != nil {
		t.Errorf("got %v, a wait of %v, %v, want an attempt", a, wait, err)
	}
	if a, _, err := login.New(memory).Reserve(t.Context(), limits, client, login.Account{}); a != nil || err != nil {
		t.Errorf("the next attempt of the client: got %v, %v, want a refusal", a, err)
	}
}

// TestSaveOfOthers: a batch is saved although the caller that saves it has gone.
func TestSaveOfOthers(t *testing.T) {
	t.Parallel()
	memory := login.NewMemory(time.Now, newDisk())
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if err := memory.Save(ctx, login.CellKey{Kind: login.ClientCell}); err != nil {
		t.Error(err)
	}
}
