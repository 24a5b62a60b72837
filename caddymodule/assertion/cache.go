package assertion

import "sync"

// maxCached is how many bytes of assertions a Signer and a Verifier keep each.
// That is more than 10,000 of the usual 500 bytes.
const maxCached = 16 << 20

// overhead is about what the map, the times and the headers of strings take
// for one assertion, in bytes.
const overhead = 400

// maxHost is how long a host name can be (RFC 1035, 2.3.4). The client
// chooses the Host header, so assertions for longer ones are not kept.
const maxHost = 253

// cache keeps values up to a number of bytes. It is safe for concurrent use.
type cache[K comparable, V any] struct {
	most   int
	mu     sync.RWMutex
	size   int // of all values
	values map[K]sized[V]
}

type sized[V any] struct {
	value V
	size  int
}

func newCache[K comparable, V any](most int) *cache[K, V] {
	return &cache[K, V]{most: most, values: make(map[K]sized[V])}
}

// get returns the value of a key, or the zero value.
func (c *cache[K, V]) get(key K) V {
	c.mu.RLock()
	value := c.values[key].value
	c.mu.RUnlock()
	return value
}

// put keeps a value that takes so many bytes with its key, and the overhead. A
// full cache drops other values at random: with one key more than it has room
// for, the least recent value would always be the one that is asked for next.
func (c *cache[K, V]) put(key K, value V, size int) {
	size += overhead
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size -= c.values[key].size
	delete(c.values, key)
	if size > c.most {
		return
	}
	for other, kept := range c.values {
		if c.size+size <= c.most {
			break
		}
		c.size -= kept.size
		delete(c.values, other)
	}
	c.size += size
	c.values[key] = sized[V]{value, size}
}
