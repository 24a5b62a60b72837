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
// Each value is of the first source that has one for the day and currency:
//
//  1. The European Central Bank: about 30 currencies, each working day since
//     1999 (package ecb).
//  2. A parity: a fixed rate with an authority that says so, exact through the
//     value of its base on that day (parities.csv).
//  3. The indicative rates: republished market rates of the other
//     currencies on scattered days, and of all on days without the bank
//     (indicative.csv).
//
// Merge brings them together. A vector never has values of another day: it
// would have cross rates that never existed. If a day lacks a currency, the
// newest earlier day that has all of them is used (see Dataset.At).
//
// # Tables
//
// The rate of a pair is that of the newest day that quotes both. A table is
// the vector of the newest day that quotes its base: Latest("EUR") is usually
// a day with the bank's currencies and the parities, and the others have a rate
// only on an older day. To get a day with a certain currency, name it.
//
// # Numbers
//
// Values, amounts and results are exact decimals. Binary floating point is
// never used.
package rates
