package book

import "time"

// StopFlushing ends the flushes in the background.
func (b *Book) StopFlushing() {
	b.recent.timer = time.AfterFunc(time.Hour, func() {})
	b.recent.timer.Stop()
}
