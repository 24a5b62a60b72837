package admin_test

import (
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
)

// gate is a control API whose answers are checked.
type gate struct{ *controltest.Checked }

func newGate(t *testing.T) *gate {
	t.Helper()
	return &gate{controltest.NewChecked(t)}
}

// newGateOver returns a gate whose changes a test disturbs.
func newGateOver(t *testing.T, s *controltest.Steps) *gate {
	t.Helper()
	return &gate{controltest.CheckedOver(t, s)}
}
