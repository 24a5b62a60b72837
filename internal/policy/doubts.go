package policy

import (
	"fmt"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Doubts returns a sentence for each option that is valid and cannot be meant: a
// token header with the name of a switch, and a line of a plan that no call to one
// of its endpoints can ever meet, because the call always costs or reserves more.
func (p *Policy) Doubts() (findings []string) {
	if name := p.TokenHeader; name == "On" || name == "Off" {
		findings = append(findings, fmt.Sprintf("The option token_header %s makes %s the name of the header that has tokens: write the name of a header, such as X-Api-Key, or no token_header.", strings.ToLower(name), name))
	}
	for _, plan := range p.Plans {
		for _, l := range plan.Limits {
			var calls []string
			for _, e := range p.Endpoints {
				if l.Max > 0 && l.Max < e.Cost && plan.Lists(e) && e.Covered(l) {
					calls = append(calls, fmt.Sprintf("%s (%s %d)", e.Name, e.Takes(), e.Cost))
				}
			}
			if len(calls) > 0 {
				of := l.Endpoint
				if of == store.All {
					of = "*"
				}
				findings = append(findings, fmt.Sprintf("The plan %q has the line %q, which refuses each call to %s with 403 cost_above_limit: raise the limit, or lower what a call costs.",
					plan.Name, fmt.Sprintf("%s %d %s", of, l.Max, l.Period), strings.Join(calls, ", ")))
			}
		}
	}
	return findings
}
