package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
)

// TestExample runs the example.
func TestExample(t *testing.T) {
	gate := controltest.New(t)
	gate.SetClock(time.Now)
	t.Setenv("TOLLGATE_CONTROL", gate.Serve(t))
	t.Setenv("TOLLGATE_SECRET", controltest.Secret)
	Example()
}

// An application sets the plan of an account, raises a limit for it, makes a
// key, and restricts the key.
func Example() {
	gate, err := client.New(os.Getenv("TOLLGATE_CONTROL"), os.Getenv("TOLLGATE_SECRET")) // for example http://127.0.0.1:8081
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	plan := "starter"
	if _, err := gate.PutAccount(ctx, "acc_1", api.AccountChange{Plan: &plan}); err != nil {
		log.Fatal(err)
	}
	limit, end := int64(50_000), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, err := gate.SetLimit(ctx, "acc_1", "convert", "month", api.OverrideRequest{Limit: &limit, ExpiresAt: &end}); err != nil {
		log.Fatal(err)
	}
	key, err := gate.CreateKey(ctx, "acc_1", api.KeyRequest{Name: "ci", Abilities: []string{"convert"}, TTL: "30d"})
	var refused *api.Error
	switch {
	case errors.Is(err, client.ErrUnreachable):
		log.Fatal("the gate does not answer: ", err)
	case errors.As(err, &refused):
		log.Fatal("the gate refuses: ", refused.Code) // for example name_taken
	case err != nil:
		log.Fatal(err)
	}
	fmt.Println(key.Token) // shown this once
	change := api.KeyChange{
		Limits:    api.To([]api.Limit{{Endpoint: "convert", Period: "day", Limit: 100}}),
		Addresses: api.To([]string{"203.0.113.0/24"}),
		ExpiresAt: api.To[*time.Time](nil), // never
	}
	if _, err := gate.ChangeKey(ctx, "acc_1", key.ID, change); err != nil {
		log.Fatal(err)
	}
}
