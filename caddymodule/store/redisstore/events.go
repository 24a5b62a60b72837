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

// eventRow is a queued store.Event without its id, attempts and due. The body is
// Base64, so that each byte is the same.
type eventRow struct {
	Type  string `json:"y"`
	At    int64  `json:"t"`
	Body  []byte `json:"b"`
	Known int64  `json:"k"`
}

func encodeEvent(e *store.Event) (string, error) {
	text, err := json.Marshal(eventRow{e.Type, nanos(e.At), e.Body, nanos(e.Known)})
	return string(text), err
}

func decodeEvent(id, text string) (store.Event, error) {
	var row eventRow
	if err := json.Unmarshal([]byte(text), &row); err != nil {
		return store.Event{}, damaged("event "+id, err)
	}
	return store.Event{
		ID: id, Type: row.Type, At: fromNanos(row.At), Body: row.Body, Known: fromNanos(row.Known), Queued: true,
	}, nil
}

// AddEvent implements store.Events.
func (s *Store) AddEvent(ctx context.Context, event store.Event) (isNew bool, dropped int, err error) {
	ctx, cancel := s.client.within(ctx)
	defer cancel()
	row := ""
	if event.Queued {
		if row, err = encodeEvent(&event); err != nil {
			return false, 0, err
		}
	}
	reply, err := s.client.run(ctx, eventAddScript, append([]string{s.knownKey()}, s.queueKeys()...), []string{
		event.ID, decimal(knownUntil(&event)), row, decimal(event.At.UnixMicro()), decimal(store.MaxQueued),
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

// knownUntil is the time until which an event is known, in milliseconds,
// rounded up.
func knownUntil(e *store.Event) int64 { return e.Known.Add(time.Millisecond - 1).UnixMilli() }

// ClaimEvents implements store.Events.
func (s *Store) ClaimEvents(ctx context.Context, now time.Time, lease time.Duration, limit int) (list []store.Event, err error) {
	ctx, cancel := s.client.within(ctx)
	defer cancel()
	due := now.Add(lease)
	reply, err := s.client.run(ctx, eventClaimScript, s.queueKeys(), []string{
		decimal(now.UnixMicro()), decimal(due.UnixMicro()), decimal(int64(limit)),
	})
	if err != nil {
		return nil, err
	}
	for r := (reader{reply: reply}); len(r.reply) > 0; {
		id, row, attempts := r.next(), r.next(), r.int()
		if r.err != nil {
			return nil, damaged("reply", r.err)
		}
		e, err := eventOf(id, row)
		if err != nil {
			return nil, err
		}
		e.Attempts, e.Due = int(attempts), due
		list = append(list, e)
	}
	return list, nil
}

func eventOf(id, row rueidis.RedisMessage) (store.Event, error) {
	name, err := id.ToString()
	if err != nil {
		return store.Event{}, damaged("an event", err)
	}
	text, err := row.ToString()
	if err != nil {
		return store.Event{}, damaged("event "+name, err)
	}
	return decodeEvent(name, text)
}

// RetryEvent implements store.Events.
func (s *Store) RetryEvent(ctx context.Context, id string, due time.Time) error {
	ctx, cancel := s.client.within(ctx)
	defer cancel()
	_, err := s.client.do(ctx, func(l *link) rueidis.RedisResult {
		return l.Do(ctx, l.B().Zadd().Key(s.queueKeys()[1]).Xx().ScoreMember().ScoreMember(float64(due.UnixMicro()), id).Build())
	})
	return err
}

// RemoveEvent implements store.Events.
func (s *Store) RemoveEvent(ctx context.Context, id string) error {
	return s.runWithin(ctx, eventRemoveScript, s.queueKeys(), []string{id})
}

// QueuedEvents implements store.Events.
func (s *Store) QueuedEvents(ctx context.Context) (int, error) {
	n, err := ask(ctx, s.client, "the queue of events", func(b rueidis.Builder) rueidis.Completed {
		return b.Zcard().Key(s.queueKeys()[2]).Build()
	}, (*rueidis.RedisMessage).AsInt64)
	return int(n), err
}
