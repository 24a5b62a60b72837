// Package rates has the exchange rates of currencies by day.
//
// # One vector a day
//
// Every day has one vector: for each currency, how many of its units one
// euro bought. All rates of the day are quotients of that vector,
//
//	rate(a, b) = v(b) / v(a)
//
// to twelve significant digits, half-even. So the rates of a day never
// contradict each other: a→b→c→a is 1, except for that rounding.
//
// # Three sources
//
// A currency has one source at a time, the first of these:
//
//  1. The European Central Bank: about 30 currencies, each working day since
//     1999 (package ecb). A currency is the bank's until its publications have
//     lacked it for LookBack days. A day without a publication has the values of
//     the one before, for LookBack days. Later days have none: a bank whose
//     publications do not arrive has not stopped.
//  2. A parity: a fixed rate with an authority that says so, exact through the
//     value of its base on that day (parities.csv). The euro has the bank's days.
//  3. The indicative rates: republished market rates of the other
//     currencies on scattered days (indicative.csv).
//
// Merge brings them together. Nothing else in a vector is of another day. If a day
// lacks a currency, the newest earlier day that has all of them is used (see
// Dataset.At).
//
// # Tables
//
// The rate of a pair is that of the newest day that quotes both and has a new rate
// of one: for two currencies of the bank, the days of its publications. A table is
// the vector of the newest day that quotes its base (see Dataset.Whole): without
// a date it has the bank's currencies and the parities, and may lack the others.
// To get a day with a certain currency, name it.
//
// # Numbers
//
// Values, amounts and results are exact decimals. Binary floating point is
// never used.
package rates
