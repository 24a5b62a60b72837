package feed

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
)

// sums are those of book.Bill, of all accounts that had the id.
type sums struct {
	Calls    int64 `cbor:"1,keyasint"`
	Credited int64 `cbor:"2,keyasint"`
	Overage  int64 `cbor:"3,keyasint"`
}

// sent is what was sent last of an endpoint.
type sent struct {
	sums
	// At is the time of the message, in seconds since 1970.
	At int64 `cbor:"4,keyasint"`
	// Open says that the receiver may not have the message.
	Open bool `cbor:"5,keyasint,omitempty"`
}

// row is what is sent of an account on a day.
type row struct {
	account string
	day     calendar.Day
	key     string
	stored  []byte          // its value in the store, nil without one
	sent    map[string]sent // by endpoint
	called  map[string]sums // by endpoint
}

// message is what is posted.
type message struct {
	*row
	endpoint string
	sent
}

// spare is the end of a day, whose times are for messages after the day. They are
// slower: 400 days fit into it.
const spare, slower = time.Hour, 10_000

// timeOf returns the time of a message about a day that ends at a time: now, but on
// that day, so that the receiver counts it there, and later than the message before,
// because the newest one counts. Some receivers know only whole seconds. A message is
// also later than those that the store has forgotten: so the last three hours of the
// day have the times of two hours, and messages after it those of spare.
func timeOf(now, end time.Time, before int64) int64 {
	left := end.Sub(now)
	switch {
	case left <= 0:
		now = end.Add(-spare - left/slower)
	case left < 3*spare:
		now = end.Add(-spare - left*2/3)
	}
	return max(before+1, now.Unix())
}

// id returns the id of the message: the same for each repetition, which has the same
// content. The time is a part of it: if a call in progress is refunded, sums return
// that were sent before.
func (m *message) id() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%d\x00%d", m.account, m.endpoint, m.day, m.sums, m.At))
	return "use_" + hex.EncodeToString(sum[:16])
}

func (m *message) time() string { return time.Unix(m.At, 0).UTC().Format(time.RFC3339) }

// properties are what receivers add up and group by.
func (m *message) properties() object {
	return object{"endpoint": m.endpoint, "day": m.day.String(), "calls": m.Calls, "credited": m.Credited, "overage": m.Overage}
}

const cloudEvents, lago, metronome = "cloudevents", "lago", "metronome"

// kind is the type of the messages.
const kind = "tollgate.usage"

type object = map[string]any

// formats return the media type and the body of a post.
var formats = map[string]func([]*message) (mediaType string, body any){
	// The source is the same for all gates and after a restart: receivers
	// recognize repetitions by source and id.
	cloudEvents: func(list []*message) (string, any) {
		return "application/cloudevents-batch+json", each(list, func(m *message) object {
			data := m.properties()
			data["account"] = m.account
			return object{
				"specversion": "1.0", "id": m.id(), "source": "tollgate", "type": kind, "subject": m.account, "time": m.time(),
				"datacontenttype": "application/json", "data": data,
			}
		})
	},
	lago: func(list []*message) (string, any) {
		return "application/json", object{"events": each(list, func(m *message) object {
			return object{"transaction_id": m.id(), "external_subscription_id": m.account, "code": kind, "timestamp": m.At, "properties": m.properties()}
		})}
	},
	// Metronome advises to write numbers as strings.
	metronome: func(list []*message) (string, any) {
		return "application/json", each(list, func(m *message) object {
			properties := m.properties()
			for name, value := range properties {
				if number, is := value.(int64); is {
					properties[name] = strconv.FormatInt(number, 10)
				}
			}
			return object{"transaction_id": m.id(), "customer_id": m.account, "event_type": kind, "timestamp": m.time(), "properties": properties}
		})
	},
}

func each(list []*message, as func(*message) object) (made []object) {
	for _, m := range list {
		made = append(made, as(m))
	}
	return made
}
