// Package route checks the target of a request and finds its route, so
// that the gate and the server behind it agree about the path.
//
// A path has many spellings, and servers differ in which of them they
// treat as equal: one resolves "..", another decodes "%2F" before it
// splits the path, a third drops ";v=1" or reads a backslash as a slash. A
// gate that guesses how the server reads a spelling may check another
// resource than the one that is served. This package normalises nothing:
// [Guard.CheckTarget] refuses a path that servers could read in two ways.
// [Table] routes the rest as the [http.ServeMux] of Go does. Names with special
// characters, as in "/npm/@types%2Fnode", pass if all readings have the same
// route.
package route
