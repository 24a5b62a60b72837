package event

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

const (
	// atOnce is how many events are posted at once.
	atOnce = 64
	// posting is how long a post may take.
	posting = 15 * time.Second
	// lease is how long no other gate posts an event that is claimed: the
	// time of a post and of storing its outcome.
	lease = posting + asking
	// asking is how long the store may take.
	asking = 5 * time.Second
	// poll is how often the sender looks for due events. Its own ones wake
	// it; those of other gates and repetitions do not.
	poll = time.Second
	// firstRetry and maxRetry are the waits after the first failure and
	// after many.
	firstRetry, maxRetry = time.Second, time.Hour
	// deliverFor is how long after it happened an event is given up.
	deliverFor = 24 * time.Hour
	// maxAnswer is how much of an answer is read, so that its connection can
	// be used again. Its headers have the same limit: the receiver may be
	// hostile, and 64 posts run at once.
	maxAnswer = 64 << 10
)

// Outcomes of deliveries.
const (
	Delivered = "delivered"
	Failed    = "failed" // it is tried again
	Expired   = "expired"
	Dropped   = "dropped" // for newer ones, because too many wait, or because the store did not take them
)

// SenderOptions are what a Sender uses.
type SenderOptions struct {
	// URL is where events are posted to.
	URL string
	// Key signs them.
	Key []byte
	// Count counts outcomes.
	Count  func(outcome string, n int)
	Now    func() time.Time
	Logger *zap.Logger
}

// Sender posts the queued events of a store as Standard Webhooks, each at
// least once. Several senders can share a store.
type Sender struct {
	SenderOptions
	signer    *standardwebhooks.Webhook
	transport *http.Transport
	wake      chan struct{}
	stop      context.CancelFunc
	running   sync.WaitGroup
	store     Store
	asking    *outage.Log
	receiver  *outage.Log
}

// NewSender returns a Sender that does not run yet.
func NewSender(options SenderOptions) (*Sender, error) {
	signer, err := standardwebhooks.NewWebhookRaw(options.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the key of the webhook: %w", err)
	}
	// The settings of Go include a proxy from the environment, which Caddy's
	// reverse_proxy uses, too.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = atOnce
	transport.MaxResponseHeaderBytes = maxAnswer
	log := outage.Logger(options.Logger)
	return &Sender{
		SenderOptions: options, signer: signer, transport: transport, wake: make(chan struct{}, 1),
		asking:   outage.New(log, slog.LevelWarn, "asking the store for events"),
		receiver: outage.New(log, slog.LevelWarn, "posting an event"),
	}, nil
}

// Start starts posting the events of a store.
func (s *Sender) Start(from Store) {
	ctx, cancel := context.WithCancel(context.Background())
	s.store, s.stop = from, cancel
	s.running.Go(func() { s.run(ctx) })
}

// Stop ends posting. Events that are being posted are due again when it
// returns: the next sender posts them. It does not wait for a store that hangs:
// then they are due after their lease. It does nothing if the sender does not
// run.
func (s *Sender) Stop() {
	if s.stop == nil {
		return
	}
	s.stop()
	if !within(asking+time.Second, s.running.Wait) {
		s.Logger.Warn("stopping to post events although the store hangs")
	}
	s.transport.CloseIdleConnections()
}

// Wake makes the sender look for due events now.
func (s *Sender) Wake() {
	select {
	case s.wake <- struct{}{}:
	default: // it looks already
	}
}

// run claims and posts due events until ctx ends.
func (s *Sender) run(ctx context.Context) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	done := make(chan struct{}, atOnce)
	for free, more := atOnce, true; ; {
		if more && free > 0 {
			claimed := s.claim(ctx, free)
			more = len(claimed) == free
			free -= len(claimed)
			for _, e := range claimed {
				s.running.Go(func() {
					s.deliver(ctx, e)
					done <- struct{}{}
				})
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
			more = true
		case <-tick.C:
			more = true
		case <-done:
			free++
		}
	}
}

// claim claims up to limit due events.
func (s *Sender) claim(ctx context.Context, limit int) (claimed []store.Event) {
	s.ask(ctx, func(ctx context.Context) (err error) {
		claimed, err = s.store.ClaimEvents(ctx, s.Now(), lease, limit)
		return err
	})
	return claimed
}

// ask uses the store, and logs an error of it. It does not end with ctx: what
// a sender has claimed, it must make due again.
func (s *Sender) ask(ctx context.Context, use func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), asking)
	defer cancel()
	if err := use(ctx); err != nil {
		s.asking.Failed(slog.Any("error", err))
		return
	}
	s.asking.Worked()
}

// deliver posts an event once, and stores the outcome.
func (s *Sender) deliver(ctx context.Context, e store.Event) {
	err := errTooOld
	// The last try is at the end of the time, or somewhat later.
	if s.Now().Before(e.At.Add(deliverFor + posting)) {
		err = s.post(ctx, e)
	}
	now := s.Now()
	switch {
	case err == nil:
		s.receiver.Worked()
		s.Count(Delivered, 1)
		s.remove(ctx, e)
	case ctx.Err() != nil:
		s.retry(ctx, e, now)
	case now.Before(e.At.Add(deliverFor)):
		s.receiver.Failed(slog.String("event", e.ID), slog.String("type", e.Type), slog.Int("attempts", e.Attempts), slog.Any("error", err))
		s.Count(Failed, 1)
		s.retry(ctx, e, retryAt(e, now))
	default:
		s.Logger.Error("giving an event up: it was not delivered in time",
			zap.String("event", e.ID), zap.String("type", e.Type), zap.Int("attempts", e.Attempts), zap.Duration("in", deliverFor), zap.NamedError("last_error", err))
		s.Count(Expired, 1)
		s.remove(ctx, e)
	}
}

// errTooOld is why an event is given up that waited without a sender.
var errTooOld = errors.New("no gate posted it")

// retryAt returns when to try again after a failure. The wait doubles with
// each failure, less up to a quarter: events that failed together are not
// tried together.
func retryAt(e store.Event, now time.Time) time.Time {
	wait := maxRetry
	if doubled := e.Attempts - 1; doubled < 12 {
		wait = min(wait, firstRetry<<max(0, doubled))
	}
	at, last := now.Add(wait-rand.N(wait/4)), e.At.Add(deliverFor)
	if at.After(last) {
		return last
	}
	return at
}

func (s *Sender) retry(ctx context.Context, e store.Event, at time.Time) {
	s.ask(ctx, func(ctx context.Context) error { return s.store.RetryEvent(ctx, e.ID, at) })
}

func (s *Sender) remove(ctx context.Context, e store.Event) {
	s.ask(ctx, func(ctx context.Context) error { return s.store.RemoveEvent(ctx, e.ID) })
}

// post posts an event. Its errors contain neither the URL nor what the
// receiver wrote. A transport follows no redirects.
func (s *Sender) post(ctx context.Context, e store.Event) error {
	ctx, cancel := context.WithTimeout(ctx, posting)
	defer cancel()
	at := s.Now()
	signature, err := s.signer.Sign(e.ID, at, e.Body)
	if err != nil {
		return fmt.Errorf("signing: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(e.Body))
	if err != nil {
		return errors.New("the URL of the webhook is invalid") // err has the URL
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "Tollgate", standardwebhooks.HeaderWebhookID: e.ID,
		standardwebhooks.HeaderWebhookTimestamp: strconv.FormatInt(at.Unix(), 10), standardwebhooks.HeaderWebhookSignature: signature,
	} {
		request.Header.Set(name, value)
	}
	response, err := s.transport.RoundTrip(request)
	if err != nil {
		return outage.Remote(err)
	}
	defer response.Body.Close()
	// Only the status decides. A body that cannot be read ends the connection.
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswer)
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the receiver answered %d", response.StatusCode)
	}
	return nil
}
