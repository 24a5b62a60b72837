package assertion

import "sync"

// cache keeps a bounded number of values. It is safe for concurrent use.
type cache[V any] struct {
	most   int
	mu     sync.RWMutex
	values map[string]V
}

func newCache[V any](most int) *cache[V] {
	return &cache[V]{most: most, values: make(map[string]V)}
}

// get returns the value of a key, or the zero value.
func (c *cache[V]) get(key []byte) V {
	c.mu.RLock()
	value := c.values[string(key)] // allocates nothing
	c.mu.RUnlock()
	return value
}

// put keeps a value. A full cache drops another value at random: with one
// key more than it has room for, the least recent value would always be
// the one that is asked for next.
func (c *cache[V]) put(key string, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, kept := c.values[key]; !kept && len(c.values) >= c.most {
		for other := range c.values {
			delete(c.values, other)
			break
		}
	}
	c.values[key] = value
}
