package caddymodule_test

import (
	"path/filepath"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
)

// TestUnavailableOnFullDisk: a gate whose disk is full is not ready, and
// is again when there is space.
func TestUnavailableOnFullDisk(t *testing.T) {
	disk := storetest.NewSmallDisk(t)
	caddymodule.LowerReserve(t, 32<<20)
	c := newControlledCaddy(t)
	app := c.gateApp("starter")
	app["store"] = object{"module": "badger", "directory": filepath.Join(disk.Dir, "gate")}
	if err := c.load(t, app); err != nil {
		t.Fatal(err)
	}
	c.expectHealth(t, "control", api.Ready)
	empty := disk.Fill(t, 1<<20)
	c.becomes(t, "control", api.Unavailable)
	c.expectHealth(t, "admin", api.Unavailable)
	empty()
	c.becomes(t, "admin", api.Ready)
	c.expectHealth(t, "control", api.Ready)
}
