package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

var errEndedEarly = errors.New("the gate ended the backup early; its log says why")

// backedUp is an operation of the admin endpoint alone.
var backedUp = api.Operation[api.None, api.None]{Method: http.MethodPost, Path: "/tollgate/backup"}

// BackedUp tells the gate that a Backup is complete and in a file, for its
// metrics.
func (c *Client) BackedUp(ctx context.Context) error {
	_, err := call(ctx, c, backedUp, api.None{})
	return err
}

// Backup writes a backup of the store to w. Only the admin endpoint of a
// running gate sends one. A backup whose end is missing is invalid: package
// backup verifies it.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	request, err := c.request(ctx, http.MethodGet, backedUp.Path, nil, "")
	if err != nil {
		return err
	}
	request.Header.Del("Accept")
	response, err := c.http.Do(request)
	if err != nil {
		return lost(err)
	}
	defer response.Body.Close()
	if err := check(response, "application/gzip"); err != nil {
		return err
	}
	_, err = io.Copy(w, response.Body)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errEndedEarly
	case err != nil:
		return fmt.Errorf("reading the backup: %w", err)
	}
	return nil
}
