package examples_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestCostOfAnswers runs the example of costs that answers tell, in front of a
// service that counts what it returns: the days of a history in a header, and
// the tokens of a model in a trailer.
func TestCostOfAnswers(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/history/{from}/{to}", func(w http.ResponseWriter, r *http.Request) {
		from, err := time.Parse(time.DateOnly, r.PathValue("from"))
		must(t, err)
		to, err := time.Parse(time.DateOnly, r.PathValue("to"))
		must(t, err)
		days := int(to.Sub(from)/(24*time.Hour)) + 1
		if days > 366 {
			w.Header().Set("Tollgate-Cost", "2")
			http.Error(w, "at most a year", http.StatusBadRequest)
			return
		}
		w.Header().Set("Tollgate-Cost", strconv.Itoa(days))
		fmt.Fprintf(w, "%d days", days)
	})
	mux.HandleFunc("POST /v1/generate", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" {
			http.Error(w, "out of memory", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Trailer", "Tollgate-Cost")
		tokens := strings.Fields("as many words as a model likes")
		for _, token := range tokens {
			fmt.Fprint(w, token, " ")
			must(t, http.NewResponseController(w).Flush())
		}
		w.Header().Set("Tollgate-Cost", strconv.Itoa(len(tokens)))
	})
	service := httptest.NewServer(mux)
	t.Cleanup(service.Close)
	site, gate := run(t, "cost-of-answers.Caddyfile", service.URL)
	key := []string{"Authorization", "Bearer " + newKey(t, gate, "acc_1", "starter")}
	wantUsed := func(endpoint string, want int64) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d used of %s", want, endpoint), func() bool { return used(t, gate, "acc_1", endpoint) == want })
	}

	answer, _ := ask(t, "GET", site+"/v1/history/2026-01-01/2026-01-31", "", key...)
	if got := answer.Header.Get("RateLimit"); !strings.HasPrefix(got, `"history";r=9969;`) || answer.Header.Get("Tollgate-Cost") != "" {
		t.Errorf("got RateLimit %s, and Tollgate-Cost %q", got, answer.Header.Get("Tollgate-Cost"))
	}
	wantUsed("history", 31)
	wantStatus(t, 400, "GET", site+"/v1/history/2020-01-01/2026-01-31", "", key...)
	wantUsed("history", 33)

	answer, text := ask(t, "POST", site+"/v1/generate?fail", "{}", key...)
	if answer.StatusCode != 500 || text != "out of memory\n" || len(answer.Header["Content-Type"]) != 1 {
		t.Errorf("an error: got %s, headers %v, %q", answer.Status, answer.Header, text)
	}
	wantUsed("generate", 0)
	answer, text = ask(t, "POST", site+"/v1/generate", "{}", key...)
	if got := answer.Header.Get("RateLimit"); !strings.HasPrefix(got, `"generate";r=95904;`) || len(answer.Trailer) > 0 || len(strings.Fields(text)) != 7 {
		t.Errorf("got RateLimit %s, trailers %v, %q", got, answer.Trailer, text)
	}
	wantUsed("generate", 7)

	exhaust(t, gate, "acc_1", "history", 398)
	wantStatus(t, 429, "GET", site+"/v1/history/2026-01-01/2026-01-02", "", key...) // 365 are left for 366
	wantUsed("history", 33)
}
