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
// indicative, republished market rates on scattered days) and from the
// European Central Bank (about 30 currencies, each working day since
// 1999). Merge lays the bank's values over the snapshot's, currency by
// currency and day by day. A day that only one of them has is answered
// from that one alone: nothing is carried into a vector from another day,
// because a vector with values of two days would quote cross rates that
// never existed. A question that such a day cannot answer goes to the
// newest day before it that can (see Dataset.At).
//
// # Numbers
//
// Values, amounts and results are decimals from the text that was read to
// the text that is written. No binary floating point is involved anywhere.
package rates
