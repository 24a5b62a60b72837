package apierror_test

import (
	"reflect"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

type Embedded struct {
	Plan *string `json:"plan,omitempty"`
}

func TestMembersOfAnObject(t *testing.T) {
	t.Parallel()
	type line struct {
		Account string `json:"account"`
		Embedded
		Hidden string `json:"-"`
		own    string
		Limits []int64 `json:"limits,omitzero"`
	}
	if got, want := apierror.Members(reflect.TypeOf(line{own: ""})), "account, plan, limits"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for value, want := range map[any]string{
		"": "a string", false: "true or false", 1.5: "a number", int64(1): "a whole number", new(string): "a string",
		struct{}{}: "an object", [1]string{}: "a list",
	} {
		if got := apierror.JSONType(reflect.TypeOf(value)); got != want {
			t.Errorf("%T: got %q, want %q", value, got, want)
		}
	}
}
