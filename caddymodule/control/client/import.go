package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// ImportAccounts creates or changes the accounts in lines, each an
// api.AccountLine as JSON, at most api.MaxImport. It calls each with the
// result of each line, in their order, once the gate has read all lines. It
// returns the first error of lines or of each.
//
// If it returns another error, accounts may be changed; the same lines can be
// sent again.
func (c *Client) ImportAccounts(ctx context.Context, lines io.Reader, each func(api.LineResult) error) error {
	return c.importLines(ctx, api.ImportAccounts.Path, lines, each)
}

// ImportKeys creates the keys in lines, each an api.KeyLine as JSON, as
// ImportAccounts does with accounts. A dry run changes nothing.
func (c *Client) ImportKeys(ctx context.Context, lines io.Reader, dryRun bool, each func(api.LineResult) error) error {
	target := api.ImportKeys.Path
	if dryRun {
		target += "?dry_run=true"
	}
	return c.importLines(ctx, target, lines, each)
}

func (c *Client) importLines(ctx context.Context, target string, lines io.Reader, each func(api.LineResult) error) error {
	source := &sourceReader{Reader: lines}
	request, err := c.request(ctx, http.MethodPost, target, source, api.LinesType)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", api.LinesType)
	response, err := c.http.Do(request)
	if err == nil {
		err = readResults(response, each)
		response.Body.Close()
	} else {
		err = lost(err)
	}
	if failed := source.failed.Load(); failed != nil {
		return fmt.Errorf("reading the lines: %w", *failed)
	}
	return err
}

// readResults calls each with the results in a response.
func readResults(response *http.Response, each func(api.LineResult) error) error {
	if err := check(response, api.LinesType); err != nil {
		return err
	}
	decoder := json.NewDecoder(response.Body)
	for line := 1; ; line++ {
		var result api.LineResult
		switch err := decoder.Decode(&result); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return lost(err)
		case result.Line != line:
			return answer{response.StatusCode, response.Header, nil}.other()
		}
		if err := each(result); err != nil {
			return err
		}
	}
}

// check returns the error of a response that is not 200 with a media type.
func check(response *http.Response, mediaType string) error {
	if got := (answer{response.StatusCode, response.Header, nil}); got.status == http.StatusOK && got.is(mediaType) {
		return nil
	}
	got, err := read(response, maxAnswer)
	switch {
	case err != nil:
		return err
	case got.status >= http.StatusBadRequest:
		return got.refusal()
	}
	return got.other()
}

// sourceReader keeps the error of a reader: the transport reports it as an
// error of the request.
type sourceReader struct {
	io.Reader
	failed atomic.Pointer[error]
}

// Read implements io.Reader.
func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed.Store(&err)
	}
	return n, err
}
