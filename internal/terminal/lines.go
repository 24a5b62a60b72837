package terminal

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// OpenLines opens the file of an import, or standard input for "-".
func OpenLines(c *cobra.Command, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(c.InOrStdin()), nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("opening the lines: %w", err)
	}
	return file, nil
}
