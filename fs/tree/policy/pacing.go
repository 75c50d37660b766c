package policy

import "time"

// Pacing limits requests that cost or may fail: the next one may be made at once after a
// long pause, then ever more rarely while nothing new comes. The caller locks it.
type Pacing struct {
	Asked time.Time     // when the last request was made
	pause time.Duration // after it, before the next one
}

// IsDue reports whether the pause is over.
func (p *Pacing) IsDue(now time.Time) bool { return now.Sub(p.Asked) >= p.pause }

// Note remembers a request. After news the pause is the shortest, and so it is when the
// request before was made long ago; otherwise the pause doubles, up to the longest.
func (p *Pacing) Note(now time.Time, news bool, shortest, longest time.Duration) {
	if news || now.Sub(p.Asked) >= 2*longest {
		p.pause = shortest
	} else {
		p.pause = max(shortest, min(2*p.pause, longest))
	}
	p.Asked = now
}
