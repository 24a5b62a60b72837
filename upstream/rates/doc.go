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
// # Two sources
//
// A vector's values come from the embedded snapshot (about 155 currencies,
// indicative, republished market rates on scattered days, weekends among
// them) and from the European Central Bank (about 30 currencies, each
// working day since 1999). A vector never has values of another day: it would
// have cross rates that never existed. If a day lacks a currency, the newest
// earlier day that has all of them is used (see Dataset.At).
//
// On a day with values of the bank, those replace the values of the snapshot,
// for each currency (see Merge). A day without them, for example a Sunday, has
// the snapshot's values, and its source says so.
//
// # Tables
//
// A day may lack currencies. There are three kinds of days: with both sources;
// with the bank's currencies only, which are most days since 1999 and usually
// the newest; and with the snapshot only.
//
// The rate of a pair is that of the newest day that quotes both. A table is
// the vector of the newest day that quotes its base: Latest("EUR") is usually
// a day with the bank's thirty currencies, and a hundred others have a rate
// only on an older day. To get a day with a certain currency, name it.
//
// # Numbers
//
// Values, amounts and results are exact decimals. Binary floating point is
// never used.
package rates
