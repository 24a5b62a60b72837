package protocol_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// service is a server of HTTP that a test can kill.
type service struct {
	*httptest.Server
	arrived chan struct{} // a call has come, and waits for the end
}

// newService starts a service. It runs a handler if there is one, and then
// keeps the call open until the client is gone or the service is killed.
func newService(t *testing.T, handler http.HandlerFunc) *service {
	t.Helper()
	s := &service{arrived: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if handler != nil {
			handler(w, r)
		}
		select {
		case s.arrived <- struct{}{}:
			<-r.Context().Done()
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.kill)
	return s
}

// kill ends the service as a crash does: nothing listens, and open
// connections end.
func (s *service) kill() {
	s.Listener.Close()
	s.CloseClientConnections()
	s.Close()
}

// proxy returns the directive that proxies to a service.
func proxy(s *httptest.Server) string { return "reverse_proxy " + s.Listener.Addr().String() }

// serve starts a server and returns the directive that proxies to it.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return proxy(server)
}
