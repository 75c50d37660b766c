package outbox

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
)

// isWaste reports whether more of the log is there in vain than is worth keeping. Needs mu.
func (s *store) isWaste() bool { return s.log-s.items > s.items/4+2*maxBatchBytes }

// clean writes what waits in the oldest segment once more, at the end, so that the segment can go: where an
// item waits for long, others behind it have ended. Needs writing.
func (s *store) clean() {
	s.mu.Lock()
	var ids []string
	if s.isWaste() && len(s.segments) > 1 {
		for id, p := range s.places {
			if p.in == s.segments[0] {
				ids = append(ids, id)
			}
		}
	}
	s.mu.Unlock()
	var list []*entry
	for _, id := range ids {
		e, err := s.read(id)
		if errors.Is(err, errDamaged) {
			e, err = s.unread(id)
		}
		if err != nil {
			return
		}
		e.now = s.now
		list = append(list, &e)
	}
	if len(list) > 0 {
		slices.SortFunc(list, func(a, b *entry) int { return cmp.Compare(a.Position, b.Position) })
		_ = s.write(list) // else the segment stays
	}
}

// unread is what can be read of an item that is damaged, which stays parked. Its segment stays, too. Needs writing.
func (s *store) unread(id string) (entry, error) {
	p, f, err := s.find(id, true)
	if err != nil {
		return entry{}, err
	}
	defer f.Close()
	e, err := readHead(f, p.from, p.from+p.address.size(), make([]byte, firstRead))
	if err != nil {
		return entry{}, err
	}
	meta, err := s.readMeta(id)
	p.in.unread = true
	return entry{kind: kindSave, head: head{Clear: e.says.Clear, Unread: true}, meta: meta}, err
}

// trim removes segments in which nothing waits, the oldest first, and each for good before the next: a
// later one may say that an item of an earlier one has ended. Needs writing.
func (s *store) trim() {
	for {
		s.mu.Lock()
		if len(s.segments) == 0 || s.segments[0].live > 0 || len(s.segments) == 1 && s.tail != nil {
			s.mu.Unlock()
			return
		}
		oldest, ended := s.segments[0], len(s.later) > 0 && len(s.places) > 0
		s.mu.Unlock()
		if ended && s.writeNext() != nil { // what was saved upon items in it learns what became of them
			return
		}
		var err error
		if oldest.unread {
			err = s.disk.rename(oldest.name, oldest.name+unreadSuffix)
		} else {
			err = s.disk.remove(oldest.name)
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = s.disk.syncNames()
		}
		if err != nil {
			return
		}
		s.mu.Lock()
		s.segments = s.segments[1:]
		s.log -= oldest.size
		s.mu.Unlock()
	}
}
