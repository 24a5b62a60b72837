package gate

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/contract"
	"github.com/caddy-tollgate/tollgate/internal/gate/refusal"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/usage"
)

// serveUsage answers the gate's own endpoint.
func (c *Call) serveUsage(w http.ResponseWriter, r *http.Request) error {
	var key *store.Key // an identity has none
	if !c.credential.IsIdentity() {
		key = &store.Key{ID: c.grant.Key, Name: c.grant.KeyName}
	}
	if own := c.grant.Restriction; own != nil {
		key.Root, key.Limits = own.CountsAs, own.Limits
	}
	doc, err := usage.Build(r.Context(), c.gate.Policy, c.store, usage.Query{
		Account: c.grant.Account, Plan: c.grant.Plan, Terms: c.grant.Terms, Key: key, Now: c.began, Days: int(c.history),
	})
	if err != nil {
		c.refund() // the gate itself has failed
		return c.refuse(w, c.gate.storeFailed(err, c.credential.IsIdentity(), c.logAttrs()...))
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(doc); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", apierror.ContentType)
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	_, err = w.Write(body.Bytes())
	if err != nil {
		c.gate.Logger.Debug("writing usage", zap.Error(err))
	}
	return nil
}

// usageDays reads the parameter days, the only one: the length of the
// history.
func usageDays(r *http.Request) (days int16, f *refusal.Refusal) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return 0, refusal.InvalidDays
	}
	values, given := query["days"]
	switch {
	case len(query) > 1 || len(query) == 1 && !given:
		return 0, refusal.UnknownParameter
	case !given:
		return 0, nil
	}
	n, err := strconv.Atoi(values[0])
	if len(values) != 1 || err != nil || n < 1 || n > contract.MaxUsageDays {
		return 0, refusal.InvalidDays
	}
	return int16(n), nil
}
