package admin

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// restrict sets when a key expires, its limits and its addresses.
func (with *Session) restrict(key *store.Key, expires *time.Time, ttl string, limits []api.Limit, from []string) (err error) {
	if key.ExpiresAt, err = with.Expiry(expires, ttl); err != nil {
		return err
	}
	if key.Limits, err = with.keyLimits(limits); err != nil {
		return err
	}
	key.Addresses, err = addresses(from)
	return err
}

// Expiry returns when a key expires that has a ttl from now or an explicit
// expiry: a zero time for never, if neither is set.
func (with *Session) Expiry(explicit *time.Time, ttl string) (time.Time, error) {
	switch {
	case explicit != nil && ttl != "":
		return time.Time{}, errTwoExpiries
	case ttl != "":
		lifetime, err := calendar.ParseDuration(ttl)
		if err != nil {
			return time.Time{}, invalidExpiry("The ttl is not a duration such as 90m, 720h or 30d, at most 36500d.")
		}
		return with.CheckExpiry(Round(with.Now).Add(lifetime))
	case explicit != nil:
		return with.CheckExpiry(*explicit)
	}
	return time.Time{}, nil
}

// CheckExpiry returns a time in UTC if it is in the future.
func (with *Session) CheckExpiry(ends time.Time) (time.Time, error) {
	switch {
	case !ends.After(with.Now):
		return ends, invalidExpiry("The expiry must be in the future: choose a later one.")
	case ends.After(with.Now.Add(calendar.MaxDuration)):
		return ends, invalidExpiry("The expiry must be within 100 years. Omit it for no expiry.")
	}
	return ends.UTC(), nil
}

// keyLimits checks the own limits of a key.
func (with *Session) keyLimits(requested []api.Limit) (limits []store.Limit, err error) {
	for _, r := range requested {
		limit := limitOf(r.Endpoint, r.Period)
		limit.Max, limit.OfKey = r.Limit, true
		switch {
		case !with.hasEndpoint(r.Endpoint):
			return nil, UnknownEndpoint(http.StatusBadRequest, r.Endpoint)
		case policy.CheckLimit(limit) != nil:
			return nil, invalidPace(limit.Period)
		case slices.ContainsFunc(limits, limit.Same):
			return nil, apierror.New(http.StatusBadRequest, "invalid_limit", fmt.Sprintf("Duplicate limit of %s for each %s.", r.Endpoint, limit.Period))
		}
		limits = append(limits, limit)
	}
	return limits, nil
}

// addresses returns the networks of a list, without duplicates.
func addresses(requested []string) (networks []netip.Prefix, err error) {
	for _, text := range requested {
		network, valid := parseNetwork(text)
		if !valid {
			return nil, InvalidAddress(text)
		}
		if !slices.Contains(networks, network) {
			networks = append(networks, network)
		}
	}
	return networks, nil
}

// parseNetwork reads a network or an address as the network that the gate
// compares addresses of clients with: without the bits of a host, and without
// IPv4-mapped IPv6, which the gate never sees.
func parseNetwork(text string) (network netip.Prefix, valid bool) {
	var err error
	if strings.Contains(text, "/") {
		network, err = netip.ParsePrefix(text)
	} else if address, fault := netip.ParseAddr(text); fault == nil && address.Zone() == "" {
		network = netip.PrefixFrom(address, address.BitLen())
	}
	if err != nil || !network.IsValid() {
		return network, false
	}
	if network.Addr().Is4In6() {
		const mapped = 96 // bits before the IPv4 address
		network = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-mapped)
	}
	return network.Masked(), network.IsValid()
}

func showLimits(limits []store.Limit) []api.Limit {
	shown := []api.Limit{}
	for _, l := range limits {
		shown = append(shown, showLimit(l))
	}
	return shown
}

func showLimit(l store.Limit) api.Limit {
	return api.Limit{Endpoint: l.Endpoint, Period: l.Period.String(), Limit: l.Max}
}

func showAddresses(networks []netip.Prefix) []string {
	shown := []string{}
	for _, network := range networks {
		text := network.String()
		if network.IsSingleIP() {
			text = network.Addr().String()
		}
		shown = append(shown, text)
	}
	return shown
}
