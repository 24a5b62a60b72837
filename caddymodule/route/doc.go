// Package route decides what a request asks for, in a way that a gate and
// the server behind it cannot disagree about.
//
// A path has many spellings, and every server picks its own which of them
// it takes for the same: one resolves "..", another decodes "%2F" before
// it splits, a third drops ";v=1" or reads a backslash as a slash. A gate
// that guesses what the server will make of a spelling guards another
// resource than the one that is served. So nothing is normalised here:
// [Guard.CheckTarget] refuses what could be read in two ways, and what it
// lets through has exactly one reading, which [Table] routes as the
// [http.ServeMux] of Go does. [Table.MatchWritten] is a short cut past both
// for what is plain at the first look.
package route
