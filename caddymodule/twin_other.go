//go:build !linux

package caddymodule

import "context"

// claimAddress does nothing: only Linux has sockets with the scope of a port.
func claimAddress(context.Context, string) {}
