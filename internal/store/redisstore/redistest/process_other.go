//go:build !linux

package redistest

import (
	"errors"
	"fmt"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

func (p *process) pause() error {
	return fmt.Errorf("pausing redis-server: %w", errors.ErrUnsupported)
}

func (p *process) resume() error {
	return fmt.Errorf("resuming redis-server: %w", errors.ErrUnsupported)
}
