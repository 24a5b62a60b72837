// Package api is the currency API: currencies, conversion, rates, history
// and batch conversion over HTTP.
//
// # One source
//
// Each endpoint is a typed handler. The routes, the accepted parameters, the
// OpenAPI document at /openapi.json and the reference page all come
// from these types, so they agree. huma generates the document. It serves
// nothing: net/http routes a request, the tags of the input type say how to
// read it, the handler answers, and one function sends the answer.
//
// # Exactness
//
// No number passes through a float64. Numbers are written as JSON numbers in
// plain notation. A client that reads them with a decimal type can recompute
// every result from the rate in the same answer.
//
// # Strictness
//
// Unknown and duplicate query parameters and members are refused, not
// ignored: a typing error in "date" must not return today's rate. Every
// refusal has the shape of package apierror.
//
// # Caching
//
// The ETag of an answer is a digest of its body, so it changes exactly with
// the body. The max-age ends when the next rates are expected.
//
// The package does not authenticate: the gate in front of it does.
package api
