package assertion

import "sync"

// cache keeps a bounded number of values. It is safe for concurrent use.
type cache[K comparable, V any] struct {
	most   int
	mu     sync.RWMutex
	values map[K]V
}

func newCache[K comparable, V any](most int) *cache[K, V] {
	return &cache[K, V]{most: most, values: make(map[K]V)}
}

// get returns the value of a key, or the zero value.
func (c *cache[K, V]) get(key K) V {
	c.mu.RLock()
	value := c.values[key]
	c.mu.RUnlock()
	return value
}

// put keeps a value. A full cache drops another value at random: with one
// key more than it has room for, the least recent value would always be
// the one that is asked for next.
func (c *cache[K, V]) put(key K, value V) {
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
