// Package ecb keeps the euro reference rates of the European Central Bank. The
// bank's file to the day of the release is embedded. The package fetches newer
// rates when they are due, compares them with known values, keeps on disk what
// is not embedded, and serves them with the rates of the other sources.
//
// # What the bank publishes
//
// On each TARGET working day at about 16:00 Frankfurt time one value for
// each of some thirty currencies. eurofxref-daily.xml holds the newest day,
// eurofxref-hist.zip every day since 4 January 1999 as one CSV file. The
// rates are free to use with the words "Source: ECB statistics"; the bank
// publishes them for information only.
//
// # What is believed
//
// A publication is text from the network. It is refused as a whole if
// it is not well-formed, has no rates, or quotes less than half of what
// the day before did. A single value is dropped if its currency is
// unknown, if it or the euro was not alive that day, if it is not above
// zero or out of all proportion, if it is of the future, or if it
// contradicts the value already accepted for that day by more than half. A
// value that steps by more than half from the currency's last one is
// held back until two more publications agree with it: that stops
// spikes, and lets devaluations through three days late.
//
// So a refresh that fails, in whichever way, never changes a good rate.
package ecb

import "errors"

var (
	// ErrMalformed is wrapped by every error about content that cannot be
	// a publication: not the format, cut off, or a page of something else.
	ErrMalformed = errors.New("not a publication of reference rates")
	// ErrTooLarge is wrapped by the error for content over its bound,
	// compressed or not.
	ErrTooLarge = errors.New("publication is too large")
	// ErrTooFew is wrapped by the error for a publication that lacks more
	// than half of the currencies of the one before.
	ErrTooFew = errors.New("publication lacks most of the currencies")
	// ErrStatus is wrapped by the error for an answer other than 200 and
	// 304.
	ErrStatus = errors.New("unexpected answer")
)
