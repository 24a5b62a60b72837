package api

import (
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
)

// sources are the names of the sources of an answer, joined by +.
type sources string

// Schema lists all values.
func (sources) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for some := rates.SourceECB; some <= rates.AllSources; some++ {
		s.Enum = append(s.Enum, some.String())
	}
	return s
}

// parseSources reads the query parameter source.
func parseSources(text string) (rates.Source, *apierror.Error) {
	var all rates.Source
	for name := range strings.SplitSeq(text, ",") {
		name = strings.Trim(name, " ")
		i := slices.IndexFunc(rates.SourceNames[:], func(known string) bool { return strings.EqualFold(known, name) })
		if i < 0 {
			return 0, invalidParameter("source", name, append(rates.SourceNames[:], "or several of them separated by commas")...)
		}
		all |= 1 << i
	}
	return all, nil
}
