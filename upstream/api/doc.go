// Package api is the currency API: currencies, conversion, rates, history
// and batch conversion over HTTP.
//
// # One table, one truth
//
// Each endpoint is a typed handler. The routes, the parameters that are
// accepted, the OpenAPI document at /openapi.json and the reference page
// at /docs all come from those types, so none of them can drift from what
// is served.
//
// # Exactness
//
// A number never passes through a float64, neither on its way in nor on
// its way out. Numbers are written as JSON numbers in plain notation, and
// whoever reads them with a decimal type can recompute every result from
// the rate that stands beside it.
//
// # Manners
//
// What is not understood is refused rather than ignored: an unknown query
// parameter, one that is given twice, an unknown member of a batch. A
// typing error in "date" must not silently give today's rate. Every
// refusal has the shape of package apierror.
//
// Answers carry a strong ETag that is a digest of the answer itself, so it
// changes exactly when the answer does, and a max-age that ends when the
// next rates are expected.
//
// The package authenticates nobody: the gate in front of it does.
package api
