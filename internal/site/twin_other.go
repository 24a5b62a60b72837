//go:build !linux

package site

import (
	"context"

	"go.uber.org/zap"
)

// ClaimAddress does nothing: only Linux has sockets with the scope of a port.
func ClaimAddress(context.Context, string, *zap.Logger) {}
