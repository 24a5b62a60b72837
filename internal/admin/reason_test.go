package admin_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// TestReasons: a change says why in a header, at most 200 characters that
// people can see. What is refused changes nothing.
func TestReasons(t *testing.T) {
	t.Parallel()
	handler := controltest.New(t).InProcess()
	for name, c := range map[string]struct {
		reasons []string
		status  int
		want    string
	}{
		"none":      {nil, 200, ""},
		"empty":     {[]string{""}, 200, ""},
		"text":      {[]string{"täglich, „neu“ 👩‍💻"}, 200, "täglich, „neu“ 👩‍💻"},
		"longest":   {[]string{strings.Repeat("ä", 200)}, 200, strings.Repeat("ä", 200)},
		"long":      {[]string{strings.Repeat("a", 201)}, 400, ""},
		"twice":     {[]string{"a", "b"}, 400, ""},
		"same":      {[]string{"a", "a"}, 400, ""},
		"invalid":   {[]string{"\xff"}, 400, ""},
		"invisible": {[]string{"a\u200bb"}, 400, ""},
		"direction": {[]string{"a\u202eb"}, 400, ""},
		"control":   {[]string{"a\tb"}, 400, ""},
	} {
		r := httptest.NewRequest(http.MethodPut, "/tollgate/accounts/"+name, strings.NewReader(`{"plan":"starter"}`))
		r.Header["Tollgate-Reason"] = c.reasons
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != c.status || c.status == 400 && !strings.Contains(w.Body.String(), `"invalid_reason"`) {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
		page, err := client.InProcess(handler).Audit(t.Context(), api.AuditQuery{Account: name})
		if (err == nil) != (c.status == 200) || len(page.Audit) != map[int]int{200: 1}[c.status] || len(page.Audit) == 1 && page.Audit[0].Reason != c.want {
			t.Errorf("%s: the audit log has %+v, %v", name, page.Audit, err)
		}
	}
}

// TestReasonOfEachChange: the header says why for each change, also for one
// whose body has a reason. Without the header, the entry has that of the body.
func TestReasonOfEachChange(t *testing.T) {
	t.Parallel()
	gate := controltest.New(t)
	c, ctx := client.InProcess(gate.InProcess()), t.Context()
	call := store.Call{Account: "acc_1", Endpoint: "convert", Day: gate.Policy().Calendar.At(gate.Now()).Day, Cost: 9}
	for _, why := range []string{"header", ""} {
		ctx := client.WithReason(ctx, why)
		_, err := c.PutAccount(ctx, "acc_1", api.AccountChange{Plan: new("starter")})
		if err == nil {
			_, err = gate.Opened().Take(ctx, call, nil, nil)
		}
		if err == nil {
			_, err = c.SetLimit(ctx, "acc_1", "convert", "day", api.OverrideRequest{Limit: new(int64(len(why))), Reason: "body"})
		}
		if err == nil {
			_, err = c.Credit(ctx, "acc_1", api.CreditRequest{Endpoint: "convert", Calls: 2, Reason: "body"})
		}
		err = errors.Join(err, c.ResetUsage(ctx, "acc_1", "convert", "body"), c.ClearLimit(ctx, "acc_1", "convert", "day"), c.DeleteAccount(ctx, "acc_1"))
		if err != nil {
			t.Fatal(err)
		}
	}
	page, err := c.Audit(ctx, api.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range page.Audit {
		got = append(got, e.Action+" "+e.Reason)
	}
	const want = "account.create header,limit.set header,usage.credit header,usage.reset header,limit.clear header,account.delete header," +
		"account.create ,limit.set body,usage.credit body,usage.reset body,limit.clear ,account.delete "
	if strings.Join(got, ",") != want {
		t.Errorf("got %q, want %s", got, want)
	}
}
