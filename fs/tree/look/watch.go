package look

import (
	"context"
	"iter"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

const (
	// WatchedInterval is the time between looks at the ledger while the service announces
	// changes; after it, the mount has seen also a change whose event was lost.
	WatchedInterval = 30 * time.Second
	// watchRestart is the time before a watch that ended is begun again.
	watchRestart = time.Minute
)

// Watch applies the events of the service until the mount ends. While there are none
// to have, Poll does the work alone.
func (l *Look) Watch() {
	for {
		if events, err := l.cfg.Watch(l.life, 0); err == nil {
			l.follow(events)
		}
		select {
		case <-l.life.Done():
			return
		case <-time.After(watchRestart):
		}
	}
}

// follow applies events until there are no more. It first lists the changes before them.
func (l *Look) follow(events iter.Seq2[sdk.Event, error]) {
	l.noteLooked(l.refresh(l.life)...)
	l.watched.Store(true)
	defer l.watched.Store(false)
	for e, err := range events {
		if err != nil {
			return // it ended; Poll does the work until it is begun again
		}
		l.noteAway(l.apply(e))
	}
}

// apply looks at the ledger where something happened.
func (l *Look) apply(e sdk.Event) error {
	switch e.Kind {
	case sdk.EventRegistered, sdk.EventAdded, sdk.EventJoined, sdk.EventRevoked, sdk.EventRole:
		if e.Account != l.cfg.Service.Account() {
			return nil
		}
		return l.Groups.Refresh(l.life, 0)
	case sdk.EventAccepted, sdk.EventGroupDeleted:
		l.cfg.Pending(e) // nothing waits any more
		return l.Groups.Refresh(l.life, 0)
	case sdk.EventFolderRenamed, sdk.EventFolderMade, sdk.EventFolderRemoved, sdk.EventUploaded, sdk.EventDeleted,
		sdk.EventRenamed, sdk.EventRemoved, sdk.EventRestored, sdk.EventAttributes:
		l.mu.RLock()
		s := l.lists[e.Group]
		l.mu.RUnlock()
		if s != nil && s.IsListed() {
			s.follow(e)
		}
		return nil
	case sdk.EventAppends, sdk.EventFormat:
		l.cfg.Setting(e.Group)
		return nil
	case sdk.EventPending, sdk.EventKept:
		l.cfg.Pending(e)
		return nil
	default:
		return nil
	}
}

// follow has the list looked at for an event of a file, unless the event is known: most events are uploads of this
// mount, and one look shows many uploads in a row. It waits for no look: the next event may take a group away (M5).
func (s *List) follow(e sdk.Event) {
	if known := s.view.Entry(e.Ref); known != nil && known.ChangedSeq >= e.ChangedSeq {
		return
	}
	s.l.mu.Lock()
	s.announced = max(s.announced, e.ChangedSeq)
	s.l.mu.Unlock()
	s.beginAnnounced()
}

// beginAnnounced begins a look at what was announced. What is announced while that goes on is looked at after it. After
// a look that failed Tick begins another one.
func (s *List) beginAnnounced() {
	s.l.begin(&s.following, s.lookAtAnnounced, func(err error) {
		s.l.noteAway(err)
		s.l.mu.RLock()
		more := err == nil && s.announced > 0
		s.l.mu.RUnlock()
		if more {
			s.beginAnnounced()
		}
	})
}

func (s *List) lookAtAnnounced(ctx context.Context) error {
	err := s.gate.Enter(ctx) // the look that goes on may show it
	s.l.mu.Lock()
	announced := s.announced
	s.announced = 0
	s.l.mu.Unlock()
	if err != nil {
		return err
	}
	isSeen := s.view.Seen() >= announced
	s.gate.Leave()
	if isSeen {
		return nil
	}
	err = s.Refresh(ctx, 0)
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	if s.repeats.Note(s.l.cfg.Now(), err == nil, s.l.cfg.Interval, LongestPause); err != nil {
		s.announced = max(s.announced, announced)
	}
	return err
}
