package gate

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/contract"
	"github.com/caddy-tollgate/tollgate/internal/gate/credential"
	"github.com/caddy-tollgate/tollgate/internal/gate/outcome"
	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// A program can take a call that does not pass through the gate, and settle its cost
// later. Its receipt is in the store, so another gate, or this one after a restart,
// knows the call.

const (
	// takenFor is how long the id of a call is known.
	takenFor = 24 * time.Hour

	// settledWithin is how long a call can be settled.
	settledWithin = time.Hour
)

// Errors of Take and Settle. Others are of the store.
var (
	ErrOtherCall = errors.New("another call of the account has this id")
	ErrNoCall    = errors.New("there is no such call to settle")
	ErrSettled   = errors.New("the call is settled with another cost")
)

// repeated says that a call was taken before. It does not leave the package.
var repeated = new(refusal.Refusal)

// Taking is a call of a program. It has a Token or an Account.
type Taking struct {
	Token, Account string
	Endpoint       *policy.Endpoint
	// Cost is what the call costs or reserves, 0 for what the endpoint says.
	Cost int64
	// Client is the address of the client, "" if it is not known.
	Client string
	// ID names the call of its account, "" for none.
	ID string

	name callName
}

// Taken is the decision about a call. What is not known is zero.
type Taken struct {
	// Refusal is nil if the call is admitted, or if mode shadow passes it.
	Refusal   *refusal.Refusal
	Grant     store.Grant
	Abilities string
	Call      string // for Settle, "" if the call is not counted
	Left
}

// Left is what a call has left of its limits.
type Left struct {
	Cost   int64
	Limits []store.Limit
	Rooms  []store.Room
	At     time.Time
	Month  calendar.Window // of the account
}

// left returns what the call has left, if it is known.
func (c *Call) left() (l Left) {
	l.Cost = c.cost
	if c.plan != nil && len(c.limits) > 0 && (c.rooms != nil || c.readRooms() == nil) {
		l.Limits, l.Rooms, l.At, l.Month = c.limits, c.rooms, c.began, c.month().Window()
	}
	return l
}

// callName is the name of a call among those of its account.
type callName [16]byte

// of returns the name with the account, as programs get it.
func (n callName) of(account string) string {
	return "call_" + base64.RawURLEncoding.EncodeToString(append(n[:], account...))
}

func parseCallName(text string) (n callName, account string, err error) {
	const prefix = "call_"
	if len(text) < len(prefix) || text[:len(prefix)] != prefix {
		return n, "", ErrNoCall
	}
	all, err := base64.RawURLEncoding.Strict().DecodeString(text[len(prefix):])
	if err != nil || len(all) <= len(n) || !contract.ValidAccount(string(all[len(n):])) { // a key of Redis can have it
		return n, "", ErrNoCall
	}
	return callName(all), string(all[len(n):]), nil
}

// receipt is what the store keeps of a call.
type receipt struct {
	Call    store.Call
	Asked   int64  `json:",omitempty"` // the cost that the program named
	Client  string `json:",omitempty"`
	Key     string // its id
	KeyName string
	// Of a call that can be settled.
	Settles bool        `json:",omitempty"`
	Limits  []keptLimit `json:",omitempty"`
	Cost    *int64      `json:",omitempty"` // that it is settled with
}

// keptLimit is a store.Limit with all of its members in JSON.
type keptLimit struct {
	Endpoint                      string
	Period                        store.Period
	Max                           int64
	OfKey, OfAddress, Calls, Soft bool
	Requests                      int32
	Included                      int64
}

func (k *receipt) encode() []byte {
	text, err := json.Marshal(k)
	if err != nil {
		panic("gate: encoding a receipt: " + err.Error()) // numbers, times and texts always encode
	}
	return text
}

// Take decides about a call of a program as about a request, and counts it. r is the
// request of the program. Limits of calls at once do not cover it: nothing tells its
// end.
func (g *Gate) Take(r *http.Request, t Taking) (Taken, error) {
	by := credential.OfAccount(t.Account)
	d := decision{Route: policy.Route{Endpoint: t.Endpoint}, mark: &Mark{Client: t.Client, taking: &t}, began: g.Now()}
	if t.ID != "" {
		sum := sha256.Sum256([]byte(t.ID))
		t.name = callName(sum[:])
	}
	if t.Token != "" {
		by, d.refusal = g.credentials.Parse(t.Token)
	}
	if d.refusal == nil {
		g.decideOn(r, &d, by)
	}
	g.Server.Decided(g.Since(d.began))
	if d.refusal == repeated {
		return d.call.again()
	}
	c := d.call
	if f := d.refusal; f != nil && f.Status < http.StatusInternalServerError && c != nil && !c.unconfirmed && t.ID != "" {
		// The call may have been taken when its plan or the endpoint was another.
		if taken, err := c.again(); !errors.Is(err, ErrNoCall) {
			return taken, err
		}
	}
	if d.refusal != nil && (g.enforces(t.Endpoint) || !g.passRefused(r, &d)) {
		taken := Taken{Refusal: d.refusal}
		if c != nil {
			d.account = c.grant.Account
			if d.refusal.Status < http.StatusInternalServerError { // the store works
				c.recordRefusal(d.refusal)
				taken = c.taken(d.refusal)
			}
		}
		g.report(d.account, t.Endpoint, d.refusal)
		return taken, nil
	}
	if c == nil {
		return Taken{}, nil
	}
	taken := c.taken(nil)
	if own := c.takeReservation(); own != nil {
		held := settledWithin
		if c.grant.Version != 0 {
			held = heldAmongGates
		}
		g.Reservations.park(taken.Call, own, append([]store.Room{}, c.rooms...), c.began.Add(held)) // without the memory of the call
	} else {
		c.mark.requestID = taken.Call
		c.record(http.StatusOK, "")
	}
	return taken, nil
}

// taken returns the decision about the call.
func (c *Call) taken(f *refusal.Refusal) Taken {
	t := Taken{Refusal: f, Grant: c.grant, Abilities: c.abilities, Left: c.left()}
	if f == nil && !c.uncounted {
		t.Call = c.mark.taking.name.of(c.grant.Account)
	}
	return t
}

// again is the decision about a call that was taken before.
func (c *Call) again() (Taken, error) {
	asked := c.mark.taking.Cost
	kept, _, err := c.gate.receipt(c.request, c.store, c.grant.Account, c.mark.taking.name)
	switch {
	case err != nil:
		return Taken{}, err
	case kept.Call.Endpoint != c.endpoint.ID || kept.Key != c.grant.Key || asked != kept.Asked && asked != kept.Call.Cost:
		return Taken{}, ErrOtherCall
	}
	c.cost = kept.Call.Cost
	return c.taken(nil), nil
}

// receipt reads the receipt of a call.
func (g *Gate) receipt(r *http.Request, db Store, account string, name callName) (kept receipt, raw []byte, err error) {
	raw, err = db.Receipt(r.Context(), store.Call{Account: account}, string(name[:]))
	if err == nil && raw == nil {
		err = ErrNoCall
	}
	if err != nil {
		return kept, nil, err
	}
	if err := json.Unmarshal(raw, &kept); err != nil {
		return kept, nil, fmt.Errorf("%w: the receipt of a call: %w", store.ErrUnavailable, err)
	}
	return kept, raw, nil
}

// addReceipt gives a call of a program its name, and a receipt if it has an id or can
// be settled.
func (c *Call) addReceipt(call *store.Call) {
	t := c.mark.taking
	if t == nil {
		return
	}
	lasts := takenFor
	if t.ID == "" {
		if lasts = settledWithin; t.name == (callName{}) {
			rand.Read(t.name[:])
		}
		if c.endpoint.Answer == nil {
			return
		}
	}
	kept := receipt{Call: *call, Asked: t.Cost, Client: t.Client, Key: c.grant.Key, KeyName: c.grant.KeyName}
	kept.Call.Handle, kept.Call.Version, kept.Call.Until = 0, 0, time.Time{}
	if kept.Settles = c.endpoint.Answer != nil; kept.Settles {
		for _, limit := range c.limits[:c.limitsOfStore()] {
			kept.Limits = append(kept.Limits, keptLimit(limit))
		}
	}
	call.Receipt = &store.Receipt{Name: string(t.name[:]), New: kept.encode(), Expires: c.began.Add(lasts)}
}

// Settle settles the cost of a call once. name is the Call that Take has returned, and
// r is the request of the program.
func (g *Gate) Settle(r *http.Request, name string, cost int64) error {
	id, account, err := parseCallName(name)
	if err != nil {
		return err
	}
	db, err := g.Store()
	if err != nil {
		return err
	}
	for n := 0; n < maxDecisions; n++ {
		kept, old, err := g.receipt(r, db, account, id)
		switch {
		case err != nil:
			return err
		case !kept.Settles, kept.Cost == nil && g.Now().Sub(kept.Call.At) > settledWithin:
			return ErrNoCall
		case kept.Cost != nil:
			g.Reservations.end(name) // another program, or another gate, has settled it
			if *kept.Cost != cost {
				return ErrSettled
			}
			return nil
		}
		kept.Cost = &cost
		kept.Call.Receipt = &store.Receipt{Name: string(id[:]), Old: old, New: kept.encode(), Expires: kept.Call.At.Add(takenFor)}
		if err = g.settleTaken(r, db, name, &kept, cost); !errors.Is(err, store.ErrReceipt) {
			return err
		}
	}
	return store.ErrUnavailable
}

// settleTaken settles a call. If another gate has taken it, or this one before a
// restart, or more than a minute ago if the store has several gates, paces are not
// set right, and its overage is that of the last call. What it has taken from limits
// of an address stays counted.
func (g *Gate) settleTaken(r *http.Request, db Store, name string, kept *receipt, cost int64) error {
	limits := make([]store.Limit, len(kept.Limits))
	for i := range limits {
		limits[i] = store.Limit(kept.Limits[i])
	}
	call, began := kept.Call, kept.Call.At
	c := &Call{gate: g, store: db, mark: &Mark{taking: new(Taking), requestID: name, Client: kept.Client}, request: r, began: began, limits: limits, cost: cost, counted: true}
	// Without a handle, the account is the one that has the id now.
	if grant, err := db.GrantAccount(r.Context(), call.Account, true); err == nil {
		c.grant = grant.At(began)
	}
	c.grant.Account, c.grant.Key, c.grant.KeyName, call.Handle = call.Account, kept.Key, kept.KeyName, c.grant.Handle
	own, rooms := g.Reservations.unpark(name)
	if rooms == nil {
		rooms = make([]store.Room, len(limits))
		if err := db.Rooms(r.Context(), call, limits, rooms); err != nil {
			return err
		}
		for i := range rooms {
			rooms[i].Busy = -1 // no time of a pace
		}
	}
	call.At = g.Now()
	if err := db.Settle(r.Context(), call, limits, rooms, cost, false); err != nil {
		if own != nil {
			g.Reservations.park(name, own, rooms, call.At.Add(heldAmongGates))
		}
		return err
	}
	if own == nil {
		own = g.Reservations.begin(&call)
		g.Reservations.decided(own, true)
	}
	i := slices.IndexFunc(g.Policy.Endpoints, func(e *policy.Endpoint) bool { return e.ID == call.Endpoint })
	if i < 0 { // a reload has removed it
		g.Reservations.settled(own)
		g.Reservations.forget(own)
		return nil
	}
	c.entitlement = &g.entitlements[len(g.Policy.Plans)][i]
	c.path = c.endpoint.Name
	c.day = g.Policy.Calendar.At(began)
	if cost > kept.Call.Cost {
		g.Server.Count(c.endpoint, outcome.CostAbove)
		g.outages.above.Failed(append(c.logAttrs(), slog.Int64("cost", cost), slog.Int64("reservation", kept.Call.Cost))...)
	}
	c.endReservation(own, call)
	c.record(http.StatusOK, "")
	return nil
}
