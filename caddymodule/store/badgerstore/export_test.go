package badgerstore

// WithSegments returns options for a log whose segments have another size,
// in bytes.
func (o Options) WithSegments(size int) Options {
	o.segmentSize = size
	return o
}

// Version is the version of the format that is written.
const Version = version
