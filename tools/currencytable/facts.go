package main

import "github.com/caddy-tollgate/tollgate/upstream/currency/civil"

// fact is what the generator's inputs lack about one currency: it
// adds to the row made from them, or makes a row of its own.
type fact struct {
	numeric   string
	minorUnit int
	name      string
	// start replaces the first day that CLDR gives.
	start civil.Date
	// takeover is the first day without the currency: the day on which its
	// successor took over, or on which ISO 4217 withdrew it.
	takeover  civil.Date
	successor string
	// ratio is how many units of the currency one of the successor replaced.
	ratio string
}

// facts are keyed by hand.
//
// The irrevocable euro rates are those of Council Regulation (EC) 2866/98
// and of the regulations that admitted each later member; the days are
// those on which the national notes ceased to be legal tender (first wave)
// or the euro was adopted (all others). The redenominations follow the
// amendments of ISO 4217. Numeric codes and minor units of withdrawn
// currencies are those they had while they were in list one.
func facts() map[string]fact {
	day := civil.New
	return map[string]fact{
		"EUR": {start: day(1999, 1, 4)}, // the first day that the ECB quoted it
		"XAD": {numeric: "396", minorUnit: 2, name: "Arab Accounting Dinar", start: day(2025, 5, 12)},
		"XCG": {numeric: "532", minorUnit: 2, start: day(2025, 3, 31)},

		"XEU": {numeric: "954", minorUnit: -1, takeover: day(1999, 1, 1), successor: "EUR", ratio: "1"},
		"ATS": {numeric: "040", minorUnit: 2, takeover: day(2002, 3, 1), successor: "EUR", ratio: "13.7603"},
		"BEF": {numeric: "056", minorUnit: 0, takeover: day(2002, 3, 1), successor: "EUR", ratio: "40.3399"},
		"DEM": {numeric: "276", minorUnit: 2, takeover: day(2002, 1, 1), successor: "EUR", ratio: "1.95583"},
		"ESP": {numeric: "724", minorUnit: 0, takeover: day(2002, 3, 1), successor: "EUR", ratio: "166.386"},
		"FIM": {numeric: "246", minorUnit: 2, takeover: day(2002, 3, 1), successor: "EUR", ratio: "5.94573"},
		"FRF": {numeric: "250", minorUnit: 2, takeover: day(2002, 2, 18), successor: "EUR", ratio: "6.55957"},
		"GRD": {numeric: "300", minorUnit: 0, takeover: day(2002, 3, 1), successor: "EUR", ratio: "340.750"},
		"IEP": {numeric: "372", minorUnit: 2, takeover: day(2002, 2, 10), successor: "EUR", ratio: "0.787564"},
		"ITL": {numeric: "380", minorUnit: 0, takeover: day(2002, 3, 1), successor: "EUR", ratio: "1936.27"},
		"LUF": {numeric: "442", minorUnit: 0, takeover: day(2002, 3, 1), successor: "EUR", ratio: "40.3399"},
		"NLG": {numeric: "528", minorUnit: 2, takeover: day(2002, 1, 28), successor: "EUR", ratio: "2.20371"},
		"PTE": {numeric: "620", minorUnit: 0, takeover: day(2002, 3, 1), successor: "EUR", ratio: "200.482"},
		"SIT": {numeric: "705", minorUnit: 2, takeover: day(2007, 1, 1), successor: "EUR", ratio: "239.640"},
		"CYP": {numeric: "196", minorUnit: 2, takeover: day(2008, 1, 1), successor: "EUR", ratio: "0.585274"},
		"MTL": {numeric: "470", minorUnit: 2, takeover: day(2008, 1, 1), successor: "EUR", ratio: "0.429300"},
		"SKK": {numeric: "703", minorUnit: 2, takeover: day(2009, 1, 1), successor: "EUR", ratio: "30.1260"},
		"EEK": {numeric: "233", minorUnit: 2, takeover: day(2011, 1, 1), successor: "EUR", ratio: "15.6466"},
		"LVL": {numeric: "428", minorUnit: 2, takeover: day(2014, 1, 1), successor: "EUR", ratio: "0.702804"},
		"LTL": {numeric: "440", minorUnit: 2, takeover: day(2015, 1, 1), successor: "EUR", ratio: "3.45280"},
		"HRK": {numeric: "191", minorUnit: 2, takeover: day(2023, 1, 1), successor: "EUR", ratio: "7.53450"},
		"BGN": {takeover: day(2026, 1, 1), successor: "EUR", ratio: "1.95583"}, // amendment 180

		"SRG": {numeric: "740", minorUnit: 2, takeover: day(2004, 1, 1), successor: "SRD", ratio: "1000"},
		"MGF": {numeric: "450", minorUnit: 0, takeover: day(2005, 1, 1), successor: "MGA", ratio: "5"},
		"TRL": {numeric: "792", minorUnit: 0, takeover: day(2005, 1, 1), successor: "TRY", ratio: "1000000"},
		"ROL": {numeric: "642", minorUnit: 2, takeover: day(2005, 7, 1), successor: "RON", ratio: "10000"},
		"AZM": {numeric: "031", minorUnit: 2, takeover: day(2006, 1, 1), successor: "AZN", ratio: "5000"},
		"MZM": {numeric: "508", minorUnit: 2, takeover: day(2006, 7, 1), successor: "MZN", ratio: "1000"},
		"SDD": {numeric: "736", minorUnit: 2, takeover: day(2007, 7, 1), successor: "SDG", ratio: "100"},
		"GHC": {numeric: "288", minorUnit: 2, takeover: day(2008, 1, 1), successor: "GHS", ratio: "10000"},
		"VEB": {numeric: "862", minorUnit: 2, takeover: day(2008, 1, 1), successor: "VEF", ratio: "1000"},
		"TMM": {numeric: "795", minorUnit: 2, takeover: day(2009, 1, 1), successor: "TMT", ratio: "5000"},
		// Two short-lived dollars lay between: 10^3, 10^10 and 10^12 in all.
		"ZWD": {numeric: "716", minorUnit: 2, takeover: day(2008, 8, 1), successor: "ZWL", ratio: "10000000000000000000000000"},
		"ZMK": {numeric: "894", minorUnit: 2, takeover: day(2013, 1, 1), successor: "ZMW", ratio: "1000"},
		"BYR": {numeric: "974", minorUnit: 0, takeover: day(2016, 7, 1), successor: "BYN", ratio: "10000"},
		"MRO": {numeric: "478", minorUnit: 2, takeover: day(2018, 1, 1), successor: "MRU", ratio: "10"},
		"STD": {numeric: "678", minorUnit: 2, takeover: day(2018, 1, 1), successor: "STN", ratio: "1000"},
		"VEF": {numeric: "937", minorUnit: 2, takeover: day(2018, 8, 20), successor: "VES", ratio: "100000"},
		// The peso took over at 24 for one: no finite number of convertible
		// pesos stands for one peso.
		"CUC": {takeover: day(2021, 7, 1), successor: "CUP"},
		"SLL": {numeric: "694", minorUnit: 2, takeover: day(2022, 7, 1), successor: "SLE", ratio: "1000"},
		"ZWL": {numeric: "932", minorUnit: 2, takeover: day(2024, 9, 1), successor: "ZWG", ratio: "2498.7242"},
		"ANG": {takeover: day(2025, 3, 31), successor: "XCG", ratio: "1"},
	}
}
