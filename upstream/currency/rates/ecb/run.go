package ecb

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

// maxJitter spreads the polls of many installations over a minute. Its random
// part need not be strong.
const maxJitter = time.Minute

// NextExpected returns when the rates may next change: at the next poll;
// without a URL, at the next look at the disk; without either, at the next
// UTC midnight.
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

// Run refreshes the rates until the context ends: first at once, then
// when new rates are expected, and half an hour after a failure. Without a URL
// it looks every half hour for rates that another process wrote. Without URL
// and Directory it returns at once.
func (p *Provider) Run(ctx context.Context) {
	keep, wait := p.poll, time.Duration(0)
	if !p.Status().Live {
		keep, wait = p.watch, pollInterval
		if p.options.Directory == "" {
			return
		}
	}
	for next := p.options.Now().Add(wait); p.wait(ctx, next); {
		next = keep(ctx)
	}
}

// wait returns at a time, and whether the context has not ended. It looks at the
// clock every half hour: the machine may have started with a wrong one.
func (p *Provider) wait(ctx context.Context, next time.Time) bool {
	p.planned.Store(next.UnixNano())
	for left := next.Sub(p.options.Now()); left > 0; left = next.Sub(p.options.Now()) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(min(left, pollInterval)):
		}
	}
	return ctx.Err() == nil
}

// poll refreshes the rates and returns when to do so again. A failure is a
// warning, and an error if the try before failed, too.
func (p *Provider) poll(ctx context.Context) time.Time {
	level := slog.LevelWarn
	if p.Status().Err != nil {
		level = slog.LevelError
	}
	err := p.Refresh(ctx)
	now, wait := p.options.Now(), rand.N(maxJitter)
	// A canceled refresh is not a failure.
	if err == nil || ctx.Err() != nil {
		return nextPoll(now, p.Status().Newest).Add(wait)
	}
	next := now.Add(pollInterval + wait)
	// A console writes a line break as it is: an error of two files is one line.
	p.logger.Log(ctx, level, "refreshing rates failed", "reason", strings.ReplaceAll(err.Error(), "\n", "; "),
		"newest", p.Status().Newest.String(), "next", next.UTC().Truncate(time.Second))
	return next
}

// watch loads rates that another process wrote and returns when to look
// again. An error of Status stays until the table changes.
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
