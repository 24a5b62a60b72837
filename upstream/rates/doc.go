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
// The bank's values win. Merge leaves a snapshot's value out not only where
// the bank has one for the same day, but wherever the bank's last one is
// within LookBack days: so the bank's Friday answers for the whole weekend,
// and the two sources never take turns from day to day. Where the bank is
// silent for longer, the snapshot's values count again.
//
// # Tables
//
// A day need not have every currency. Three kinds occur: days with both
// sources; days with the bank's currencies alone, which are most since 1999
// and, with fresh rates, usually the newest; and days of the snapshot on
// which the bank did not publish, which lack the bank's currencies.
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
