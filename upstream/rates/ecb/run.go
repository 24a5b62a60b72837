package ecb

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

// maxJitter spreads the polls of many installations over a minute.
const maxJitter = time.Minute

// NextExpected returns when the rates may next change: at the next poll;
// without a URL to poll, when the disk is next looked at; without either, not
// before the next UTC midnight.
func (p *Provider) NextExpected(now time.Time) time.Time {
	if planned := time.Unix(0, p.planned.Load()); planned.After(now) {
		return planned.UTC()
	}
	switch status := p.Status(); {
	case status.Live:
		return nextPoll(now, status.Newest)
	case p.options.Directory != "":
		return now.Add(pollInterval).UTC()
	}
	return (civil.Of(now.UTC()) + 1).Time()
}

// Run keeps the rates fresh until the context ends.
// It refreshes them when they are due, first within a minute of the start; a
// failed refresh is logged and tried again after half an hour. Without a URL
// it looks every half hour whether another process has put rates on disk.
// Without URL and Directory there is nothing to do and it returns at once.
func (p *Provider) Run(ctx context.Context) {
	keep, wait := p.poll, jitter()
	if !p.Status().Live {
		keep, wait = p.watch, pollInterval
		if p.options.Directory == "" {
			return
		}
	}
	p.planned.Store(p.options.Now().Add(wait).UnixNano())
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		next := keep(ctx)
		p.planned.Store(next.UnixNano())
		timer.Reset(next.Sub(p.options.Now()))
	}
}

// poll refreshes the rates and returns when to do so again.
func (p *Provider) poll(ctx context.Context) time.Time {
	err := p.Refresh(ctx)
	status, now := p.Status(), p.options.Now()
	next := nextPoll(now, status.Newest)
	// A refresh that the end of the context broke off has not failed.
	if err != nil && ctx.Err() == nil {
		p.logger.Error("refreshing rates failed", "error", err, "newest", status.Newest.String())
		next = now.Add(pollInterval)
	}
	return next.Add(jitter())
}

// watch takes up what another process put on disk and returns when to look
// again. What Status tells stays until then: a table that cannot be read is
// told for as long as it is there.
func (p *Provider) watch(context.Context) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.disk.changed() {
		err := p.load()
		p.publish(err)
		if err != nil {
			p.logger.Error("reading rates failed", "error", err)
		} else {
			p.logger.Info("rates read from disk", "newest", p.believed.Newest().String())
		}
	}
	return p.options.Now().Add(pollInterval)
}

// jitter returns a random part of a minute. It spreads load and protects
// nothing, so its randomness need not be strong.
func jitter() time.Duration { return rand.N(maxJitter) }
