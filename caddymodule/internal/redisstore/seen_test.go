package redisstore

import "testing"

// TestSeenInAnyOrder: replies arrive in any order. Only a greater generation
// lowers counts.
func TestSeenInAnyOrder(t *testing.T) {
	t.Parallel()
	fields := [callCounters]string{"22:convert", "convert", "22:*", "*"}
	var s seen
	for _, reply := range []struct {
		generation, count      int64
		wantGeneration, wanted int64
	}{
		{0, 5, 0, 5},
		{0, 4, 0, 5}, // sent before
		{7, 2, 7, 2}, // a refund
		{0, 9, 7, 2}, // sent before the refund
		{7, 3, 7, 3},
		{7, 1, 7, 3},
		{9, 0, 9, 0}, // a reset
		{7, 8, 9, 0},
	} {
		s.note(1, "202611", "22", reply.generation, &fields, [callCounters]int64{reply.count, reply.count, reply.count, reply.count})
		generation, counts := s.read(1, "202611", "22", &fields)
		if want := [callCounters]int64{reply.wanted, reply.wanted, reply.wanted, reply.wanted}; generation != reply.wantGeneration || counts != want {
			t.Errorf("after %+v: got %d, %v", reply, generation, counts)
		}
	}
	if generation, counts := s.read(2, "202611", "22", &fields); generation != 0 || counts != [callCounters]int64{} {
		t.Errorf("the next account of that id: got %d, %v", generation, counts)
	}
}
