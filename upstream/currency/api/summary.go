package api

import (
	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// summary says how a rate changed in a history.
type summary struct {
	Start   number  `json:"start" doc:"The first rate."`
	End     number  `json:"end" doc:"The last rate."`
	Change  number  `json:"change" doc:"end − start."`
	Percent number  `json:"percent" doc:"change in percent of start, to 12 significant digits."`
	High    extreme `json:"high" doc:"The highest rate, and the first day with it."`
	Low     extreme `json:"low" doc:"The lowest rate, and the first day with it."`
	Average number  `json:"average" doc:"The mean of the rates, to 12 significant digits."`
}

// extreme is a rate and its day.
type extreme struct {
	Date civil.Date `json:"date" format:"date" doc:"The day of the rate."`
	Rate number     `json:"rate" doc:"The rate."`
}

// summaries are the summary of one currency, or those of a list.
type summaries = oneOf[summary, map[currency.Code]summary]

// summarize returns the summaries of the rates of each currency. A currency of
// a list without a rate has none.
func summarize(codes []currency.Code, points [][]rates.Extreme) *summaries {
	many := make(map[currency.Code]summary, len(codes))
	for i, code := range codes {
		if len(points[i]) == 0 {
			continue
		}
		s := rates.Summarize(points[i])
		many[code] = summary{
			number{s.Start}, number{s.End}, number{s.Change}, number{s.Percent},
			extreme{s.High.Date, number{s.High.Rate}}, extreme{s.Low.Date, number{s.Low.Rate}}, number{s.Average},
		}
	}
	if len(codes) == 1 {
		return &summaries{many[codes[0]]}
	}
	return &summaries{many}
}
