package redisstore

import (
	"context"
	"encoding/json"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// knownKey has the ids of events, by the time until which they are known.
func (s *Store) knownKey() string { return s.prefix + ":events:{events}:k" }

// queueKeys are the bodies of the events that wait, when they are due, when they
// happened, and their attempts.
func (s *Store) queueKeys() []string {
	key := s.prefix + ":events:{events}:"
	return []string{key + "b", key + "d", key + "t", key + "n"}
}

func decodeEvent(id, text string) (e store.Event, err error) {
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return store.Event{}, damaged("event "+id, err)
	}
	return e, nil
}

// AddEvent implements store.Events.
func (s *Store) AddEvent(ctx context.Context, event store.Event) (isNew bool, dropped int, err error) {
	row := ""
	if event.Queued {
		if row, err = encode(utcEvent(event)); err != nil {
			return false, 0, err
		}
	}
	reply, err := s.client.runWithin(ctx, eventAddScript, append([]string{s.knownKey()}, s.queueKeys()...), []string{
		event.ID, decimal(knownUntil(&event)), row, decimal(event.At.UnixMicro()), decimal(int64(s.maxQueued)),
	})
	if err != nil {
		return false, 0, err
	}
	r := reader{reply: reply}
	added, removed := r.int(), r.int()
	if r.err != nil {
		return false, 0, damaged("reply", r.err)
	}
	return added == 1, int(removed), nil
}

// utcEvent returns an event as it is stored.
func utcEvent(e store.Event) store.Event {
	e.At, e.Known, e.Due, e.Attempts = e.At.UTC(), e.Known.UTC(), time.Time{}, 0
	return e
}

// knownUntil is the time until which an event is known, in milliseconds,
// rounded up.
func knownUntil(e *store.Event) int64 { return e.Known.Add(time.Millisecond - 1).UnixMilli() }

// ClaimEvents implements store.Events.
func (s *Store) ClaimEvents(ctx context.Context, now time.Time, lease time.Duration, limit int) (list []store.Event, err error) {
	due := now.Add(lease)
	reply, err := s.client.runWithin(ctx, eventClaimScript, s.queueKeys(), []string{
		decimal(now.UnixMicro()), decimal(due.UnixMicro()), decimal(int64(limit)),
	})
	if err != nil {
		return nil, err
	}
	for r := (reader{reply: reply}); len(r.reply) > 0; {
		id, row, attempts := r.text(), r.text(), r.int()
		if r.err != nil {
			return nil, damaged("reply", r.err)
		}
		e, err := decodeEvent(id, row)
		if err != nil {
			return nil, err
		}
		e.Attempts, e.Due = int(attempts), due
		list = append(list, e)
	}
	return list, nil
}

// RetryEvent implements store.Events.
func (s *Store) RetryEvent(ctx context.Context, id string, due time.Time) error {
	_, err := s.client.one(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Zadd().Key(s.queueKeys()[1]).Xx().ScoreMember().ScoreMember(float64(due.UnixMicro()), id).Build()
	})
	return err
}

// RemoveEvent implements store.Events.
func (s *Store) RemoveEvent(ctx context.Context, id string) error {
	_, err := s.client.runWithin(ctx, eventRemoveScript, s.queueKeys(), []string{id})
	return err
}

// QueuedEvents implements store.Events.
func (s *Store) QueuedEvents(ctx context.Context) (int, error) {
	n, err := ask(ctx, s.client, "the queue of events", func(b rueidis.Builder) rueidis.Completed {
		return b.Zcard().Key(s.queueKeys()[2]).Build()
	}, (*rueidis.RedisMessage).AsInt64)
	return int(n), err
}
