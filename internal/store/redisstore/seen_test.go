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
	// A call of the day before is settled late.
	for _, earlier := range []struct{ month, day string }{{"202611", "21"}, {"202610", "31"}} {
		s.note(1, earlier.month, earlier.day, 10, &fields, [callCounters]int64{7, 7, 7, 7})
		if generation, counts := s.read(1, earlier.month, earlier.day, &fields); generation != 0 || counts != [callCounters]int64{} {
			t.Errorf("of an earlier day: got %d, %v", generation, counts)
		}
	}
	s.note(1, "202611", "22", 9, &fields, [callCounters]int64{5, 6, 7, 8})
	s.note(1, "202611", "21", 9, &fields, [callCounters]int64{})
	if generation, counts := s.read(1, "202611", "22", &fields); generation != 9 || counts != [callCounters]int64{5, 6, 7, 8} {
		t.Errorf("after an earlier day: got %d, %v", generation, counts)
	}
	if generation, counts := s.read(1, "202611", "23", &fields); generation != 9 || counts != [callCounters]int64{0, 6, 0, 8} {
		t.Errorf("the next day: got %d, %v, want the counts of the month", generation, counts)
	}
	if generation, counts := s.read(1, "202701", "01", &fields); generation != 0 || counts != [callCounters]int64{} {
		t.Errorf("the next month: got %d, %v", generation, counts)
	}
	if generation, counts := s.read(2, "202611", "22", &fields); generation != 0 || counts != [callCounters]int64{} {
		t.Errorf("the next account of that id: got %d, %v", generation, counts)
	}
}
