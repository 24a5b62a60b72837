package book

// QueueSize is how many calls wait in the queue.
const QueueSize = queueSize

// StopFlushing ends the flushes in the background.
func (b *Book) StopFlushing() {
	b.activity.stop()
	b.activity.running.Wait()
}

// MoveQueue moves the queue to the accounts and writes nothing.
func (b *Book) MoveQueue() {
	b.activity.mu.Lock()
	defer b.activity.mu.Unlock()
	b.activity.drain()
}

// Queued returns how many calls are in the queue.
func (b *Book) Queued() int {
	b.activity.queueing.Lock()
	defer b.activity.queueing.Unlock()
	return len(b.activity.queue)
}
