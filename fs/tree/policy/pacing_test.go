package policy

import (
	"testing"
	"time"
)

// R4: requests that bring nothing new become rarer, and are frequent again after news or a
// long pause.
func TestPacing(t *testing.T) {
	const shortest, longest = 2 * time.Second, time.Minute
	for _, tc := range []struct {
		name     string
		requests []bool        // made as soon as they are due; true: one brought news
		later    time.Duration // the last one is made so much later
		pause    time.Duration // after them
	}{
		{name: "none yet"},
		{name: "the first", requests: []bool{false}, pause: shortest},
		{name: "nothing new", requests: []bool{false, false, false}, pause: 4 * shortest},
		{name: "nothing new for long", requests: make([]bool, 20), pause: longest},
		{name: "news", requests: []bool{false, false, false, true}, pause: shortest},
		{name: "nothing new after news", requests: []bool{false, false, true, false}, pause: 2 * shortest},
		{name: "after a pause", requests: []bool{false, false, false}, later: longest + time.Minute/2, pause: 4 * shortest},
		{name: "after a long pause", requests: []bool{false, false, false}, later: 2 * longest, pause: shortest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := time.Unix(1700000000, 0)
			var p Pacing
			for i, news := range tc.requests {
				for !p.IsDue(now) {
					now = now.Add(time.Second)
				}
				if i == len(tc.requests)-1 {
					now = now.Add(tc.later)
				}
				p.Note(now, news, shortest, longest)
			}
			if !p.IsDue(now.Add(tc.pause)) {
				t.Errorf("not due after %v", tc.pause)
			}
			if tc.pause > 0 && p.IsDue(now.Add(tc.pause-time.Nanosecond)) {
				t.Errorf("due before %v", tc.pause)
			}
		})
	}
}
