// Package control is the gate's administration: who has which plan, which
// keys exist, what was used.
//
// It is JSON over HTTP and knows nothing of Caddy. The same handler is
// mounted twice, on a listener for applications, where RequireSecret
// stands in front of it, and under Caddy's admin endpoint for the
// operator's command line, which that endpoint protects itself. Package
// client speaks to either with the types declared here.
//
// Every refusal has the shape of package apierror. The API describes
// itself at GET /tollgate/openapi.json.
package control
