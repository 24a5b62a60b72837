package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// Backup writes a backup of the store to w. Only the admin endpoint of a
// running gate sends one. A backup whose end is missing is invalid: package
// backup verifies it.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	request, err := c.request(ctx, http.MethodGet, "/backup", nil, nil)
	if err != nil {
		return err
	}
	request.Header.Del("Accept")
	response, err := c.http.Do(request)
	if err != nil {
		return unreachable(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
		if err != nil {
			return unreachable(err)
		}
		return answer{response.StatusCode, response.Header, body}.refusal()
	}
	if _, err := io.Copy(w, response.Body); err != nil {
		return fmt.Errorf("reading the backup: %w", err)
	}
	return nil
}
