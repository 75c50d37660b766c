package look

import (
	"cmp"
	"context"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

// StorageAge is how old an answer about the space for files may be before the service is asked again.
const StorageAge = 10 * time.Second

// storageWait is how long a program waits for the service. After a service has not answered
// in this time, no program waits again before StorageAge is over.
const storageWait = 250 * time.Millisecond

// storage is the last answer of the service about the space for files: of a group, or of the account.
type storage struct {
	known   bool
	said    sdk.Storage
	askedAt time.Time
	asking  *asking
}

// Storage returns the space that is known for a group, or else for the account. When the
// answer is old, the service is asked in the background.
func (l *Look) Storage(g sdk.GroupID) (said sdk.Storage, known bool) {
	if l.cfg.Storage == nil {
		return said, false
	}
	l.mu.RLock()
	s := cmp.Or(l.lists[g], l.Groups)
	l.mu.RUnlock()
	if a := s.askStorage(); a != nil {
		select {
		case <-a.done:
		case <-time.After(storageWait):
		}
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !s.storage.known {
		s = l.Groups
	}
	return s.storage.said, s.storage.known
}

// askStorage asks the service if that is due, else it returns nil. An answer that fails
// changes nothing.
func (s *List) askStorage() *asking {
	l, r := s.l, &s.storage
	l.mu.Lock()
	due := l.cfg.Now().Sub(r.askedAt) >= StorageAge && l.life.Err() == nil && l.Reached()
	if due {
		r.askedAt = l.cfg.Now()
	}
	l.mu.Unlock()
	if !due {
		return nil
	}
	return l.begin(&r.asking, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, l.cfg.Patience)
		defer cancel()
		said, err := l.cfg.Storage(ctx, s.group)
		l.mu.Lock()
		defer l.mu.Unlock()
		if err == nil {
			r.said, r.known = said, true
		}
		return err
	}, nil)
}
