package rates

// Merge returns a dataset with the values of both. For one day and currency, a
// value of the bank replaces one of the snapshot; of the same source, over
// replaces the other.
func Merge(base, over *Dataset) *Dataset {
	merged := Builder{entries: make([]entry, 0, len(base.cells)+len(over.cells))}
	for _, source := range []Source{SourceSnapshot, SourceECB} {
		for _, data := range []*Dataset{base, over} {
			for i, day := range data.days {
				for _, c := range data.row(i) {
					if c.source == source {
						merged.Set(day, data.codes[c.column], c.value(), source)
					}
				}
			}
		}
	}
	return merged.Build()
}
