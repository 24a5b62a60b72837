// Package rates answers what one currency was worth in another on a day.
//
// # One vector a day
//
// Every day has one vector: for each currency, how many of its units one
// euro bought. All rates of the day are quotients of that vector,
//
//	rate(a, b) = v(b) / v(a)
//
// to twelve significant digits, half-even. So the rates of a day never
// contradict each other: a→b→c→a comes back to 1 but for that rounding.
//
// # Two sources
//
// A vector's values come from the embedded snapshot (about 155 currencies,
// indicative, republished market rates on scattered days, weekends among
// them) and from the European Central Bank (about 30 currencies, each
// working day since 1999). Nothing is carried into a vector from another
// day, because a vector with values of two days would quote cross rates
// that never existed. A question that a day cannot answer goes to the
// newest day before it that can (see Dataset.At).
//
// The bank's values win on every day that it published for: Merge lays
// them over the snapshot's, currency by currency and day by day. A day of
// the snapshot alone, a Sunday perhaps, is answered from the snapshot and
// says so in its source: leaving its dollar out, because the bank quoted
// one on Friday, would take every cross rate with the other currencies
// from that day.
//
// # Tables
//
// A day need not have every currency. Three kinds occur: days with both
// sources; days with the bank's currencies alone, which are most since 1999
// and, with fresh rates, usually the newest; and days of the snapshot on
// which the bank did not publish.
//
// A pair is answered from the newest day that quotes both. A whole table is
// the vector of the newest day that quotes its base, whatever else that day
// has: Latest("EUR") is usually a day with the bank's thirty currencies, and
// a hundred others have a rate only on an older day. Whoever needs a certain
// currency in a table must name it in the question.
//
// # Numbers
//
// Values, amounts and results are decimals from the text that was read to
// the text that is written. No binary floating point is involved anywhere.
package rates
