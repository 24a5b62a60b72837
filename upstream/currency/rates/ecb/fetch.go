package ecb

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/caddy-tollgate/tollgate/internal/outage"
)

const (
	// maxBody bounds what is read of an answer. The zipped history has
	// 630 KB, its plain CSV 1.9 MB.
	maxBody = 5 << 20
	tries   = 3
)

const userAgent = "tollgate (+https://github.com/caddy-tollgate/tollgate)"

// errURL does not quote the URL.
var errURL = errors.New("the URL is invalid")

// validators are what makes a request conditional (RFC 9110 section 13.1).
type validators struct {
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"last_modified,omitempty"`
}

// fetcher gets publications over HTTP.
type fetcher struct {
	client  *http.Client
	timeout time.Duration // of one try, body included
	wait    time.Duration // before the second try
}

// answer is content with its validators; content is nil if it is unchanged.
type answer struct {
	content    []byte
	validators validators
}

// get fetches a URL unless it is unchanged. Failures that may pass (the
// network, 408, 429, 5xx) are tried again, twice at most.
func (f fetcher) get(ctx context.Context, address string, known validators) (answer, error) {
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval = f.wait
	got, err := backoff.Retry(ctx, func() (answer, error) {
		return f.try(ctx, address, known)
	}, backoff.WithBackOff(policy), backoff.WithMaxTries(tries))
	if errors.As(err, new(*unreachableError)) || err == nil {
		return got, err
	}
	return answer{}, fmt.Errorf("fetching rates: %w", err)
}

// unreachableError says that a server did not answer. It names the host only:
// the path of a URL can have a token.
type unreachableError struct {
	host  string
	cause error
}

func (e *unreachableError) Error() string {
	return fmt.Sprintf("cannot reach %s (%v)", e.host, e.cause)
}

func (e *unreachableError) Unwrap() error { return e.cause }

// try makes one request.
func (f fetcher) try(ctx context.Context, address string, known validators) (got answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return answer{}, backoff.Permanent(errURL)
	}
	request.Header.Set("User-Agent", userAgent)
	if known.ETag != "" {
		request.Header.Set("If-None-Match", known.ETag)
	}
	if known.LastModified != "" {
		request.Header.Set("If-Modified-Since", known.LastModified)
	}
	response, err := f.client.Do(request)
	if err != nil {
		return answer{}, &unreachableError{request.URL.Host, outage.Remote(err)}
	}
	defer func() {
		if closing := response.Body.Close(); err == nil {
			err = closing
		}
	}()
	switch code := response.StatusCode; {
	case code == http.StatusNotModified:
		return answer{validators: known}, nil
	case code == http.StatusOK:
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		return answer{}, fmt.Errorf("%w: status %d", ErrStatus, code)
	default:
		return answer{}, backoff.Permanent(fmt.Errorf("%w: status %d", ErrStatus, code))
	}
	content, err := readBounded(response.Body, maxBody)
	if errors.Is(err, ErrTooLarge) {
		return answer{}, backoff.Permanent(err)
	}
	if err != nil {
		return answer{}, outage.Remote(err)
	}
	return answer{content, validators{
		ETag:         response.Header.Get("ETag"),
		LastModified: response.Header.Get("Last-Modified"),
	}}, nil
}
