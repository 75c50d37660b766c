package look

import "time"

// Failed is a look at the ledger that failed.
type Failed struct {
	Time  time.Time `json:"time"` // of the newest such failure
	Path  string    `json:"path"` // "/" for the list of groups
	Class string    `json:"class"`
	Error string    `json:"error"`
	Hint  string    `json:"hint,omitempty"`

	Away bool `json:"-"` // the service did not answer
	Dry  bool `json:"-"` // the budget allows no look
}

// noteOutcome keeps the outcome of a look for [Look.Failed]. When the service refuses a look,
// or its answer cannot be believed, that is noted; the next note follows when a
// look fails in another way, or fails again after one succeeded.
func (s *List) noteOutcome(err error) {
	now := s.l.judge(err)
	if err != nil && now == nil {
		return
	}
	s.l.mu.Lock()
	before := s.failed
	s.failed = now
	s.l.mu.Unlock()
	if now == nil || now.Away || now.Dry || before != nil && before.Class == now.Class && before.Hint == now.Hint {
		return
	}
	s.l.cfg.Note(err)
}

// judge says what an error means; nil = nothing.
func (l *Look) judge(err error) *Failed {
	if err == nil || l.life.Err() != nil {
		return nil
	}
	return l.cfg.Judge(err)
}

// Failed returns the newest look that failed, of those lists whose last look did; nil = none.
func (l *Look) Failed() (newest *Failed) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, s := range l.lists {
		if f := s.failed; f != nil && (newest == nil || f.Time.After(newest.Time)) {
			newest = f
		}
	}
	return newest
}

// fromMemory lets memory answer while the service is away, or once the budget is used up:
// listed names stay, and programs can begin new files. A close then fails. The end of the
// budget is reported once.
func (s *List) fromMemory(err error) error {
	failed := s.l.judge(err)
	switch {
	case failed == nil:
		return err
	case failed.Away:
		return nil
	case failed.Dry:
		s.l.mu.Lock()
		first := !s.reportedDry
		s.reportedDry = true
		s.l.mu.Unlock()
		if first {
			s.l.cfg.Note(err)
		}
		return nil
	default:
		return err
	}
}
