package outbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/svcfs/svcfs/sdk"
)

const (
	logSuffix    = ".log"    // of segments of the log, behind their number
	unreadSuffix = ".unread" // behind the name of a segment of which a part could not be read, once nothing in it waits
	bodySuffix   = ".body"   // of the content of one large save, whose item is written after it
	partsSuffix  = ".parts"  // of the list of its parts that the service has
	// maxBatch is how many items are written, or sent, together, at most, and how many entries a
	// segment has when another one is begun. maxBatchBytes is the same for their bytes.
	maxBatch      = 64
	maxBatchBytes = 4 << 20
)

// store keeps items on a disk. An item that add has taken survives a loss of power, whole, until
// it ends.
//
// It is a log that is only appended to: entries say that an item is there, has another address, or
// has ended. What was written is never written anew; a later entry of an item counts before an
// earlier one, and what a loss of power takes is the end of the log. Entries that are added at the
// same time share a write and a sync: a frame. The log is cut into segments, files that go, the
// oldest first, when all their items have ended. It is safe for concurrent use.
type store struct {
	disk disk
	now  func(*Clear) // brings what is known of an item up to date, see clean; nil = nothing changes

	writing chan struct{} // one frame at a time
	// What follows is by writing.
	tail   newFile // of the last segment; nil = the next frame begins another one
	inTail int     // entries in it

	mu       sync.Mutex
	joins    []*joining // wait for the next frame
	later    []*entry   // ends and cuts that nobody waits for: they go into the next frame
	segments []*segment // oldest first
	places   map[string]*place
	journals map[string]head  // of the log, by id: what it said when it was opened
	bodies   map[string]int64 // lengths of the files with large content, by name
	ended    []Clear          // large items whose end is not durable yet, and whose body is there until then
	log      int64            // bytes of all segments
	items    int64            // bytes of them that count
	large    int64            // bytes of all bodies
	rooms    int64            // bytes that saves have for themselves, see room
	next     int64            // position
	serial   uint64           // of the next segment

	damaged []string // segments with what nobody can read, though it was whole once
	torn    []string // segments whose end a loss of power took
}

// segment is a file of the log.
type segment struct {
	name   string
	size   int64
	live   int  // items whose content, or whose only entry, is in it, and that have not ended
	unread bool // a part of it could not be read
}

// place is where an item lies.
type place struct {
	in   *segment // with the content
	at   int64
	meta *segment // with the newest metadata: the same, or a later one
	from int64
	// The lengths are those of the entries at the two places.
	save, address shape
}

// size is how many bytes of the log count because of the item: none because of a journal.
func (p *place) size() int64 {
	if p.save.kind == kindJournal {
		return 0
	}
	if p.meta == p.in && p.from == p.at {
		return p.save.size()
	}
	return p.save.size() + p.address.size()
}

// joining is an entry that waits to be written.
type joining struct {
	e    *entry
	done chan struct{}
	err  error // once done is closed
}

// add writes an entry, and gives a new item the next position. When it returns nil, the entry
// survives a loss of power. Otherwise it is not there.
func (s *store) add(ctx context.Context, e *entry) error {
	if e.isTooLarge() { // else what shares its frame fails with it
		return errTooLarge
	}
	j := &joining{e: e, done: make(chan struct{})}
	s.mu.Lock()
	s.joins = append(s.joins, j)
	s.mu.Unlock()
	for {
		select {
		case <-j.done:
			return j.err
		default:
		}
		select {
		case <-j.done:
			return j.err
		case s.writing <- struct{}{}:
			_ = s.writeNext() // it is in j.err
			<-s.writing
		case <-ctx.Done():
			if s.leave(j) {
				return ctx.Err()
			}
			<-j.done
			return j.err
		}
	}
}

// leave takes an entry from those that wait; false means that it is being written.
func (s *store) leave(j *joining) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.joins, j)
	if i < 0 {
		return false
	}
	s.joins = slices.Delete(s.joins, i, i+1)
	return true
}

// writeNext writes a frame of the entries that wait, durably. An error is that of each of them. Needs writing.
func (s *store) writeNext() error {
	s.mu.Lock()
	n, bytes := 0, 0
	for n < len(s.joins) && n < maxBatch && (n == 0 || bytes < maxBatchBytes) {
		bytes += len(s.joins[n].e.body)
		n++
	}
	batch := slices.Clone(s.joins[:n])
	s.joins = slices.Delete(s.joins, 0, n)
	later := s.later
	s.later = nil
	s.mu.Unlock()
	list := slices.Clone(later)
	for _, j := range batch {
		list = append(list, j.e)
	}
	err := s.write(list)
	if err != nil {
		s.mu.Lock()
		s.later = append(s.later, later...)
		s.mu.Unlock()
	}
	for _, j := range batch {
		j.err = err
		close(j.done)
	}
	return err
}

// write appends a frame, durably. Needs writing.
func (s *store) write(list []*entry) error {
	if len(list) == 0 {
		return nil
	}
	var raw []byte
	var err error
	at := make([]int64, len(list)+1)
	for i, e := range list {
		if e.kind == kindSave && e.Position == 0 {
			s.mu.Lock()
			e.Position = s.next
			s.next++
			s.mu.Unlock()
			if e.Position > maxPosition {
				return errUsedUp
			}
		}
		if e.now != nil {
			e.now(e.Clear)
		}
		if raw, err = e.encode(raw); err != nil {
			return err
		}
		at[i+1] = int64(len(raw))
	}
	seg, err := s.append(raw)
	if err != nil {
		return fmt.Errorf("write to the outbox: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range list {
		e.room.fill()
		sh, _ := parseShape(raw[at[i]:])
		s.take(seg, seg.size+at[i], sh, e.head)
	}
	seg.size += int64(len(raw))
	s.log += int64(len(raw))
	s.removeBodies()
	if s.inTail += len(list); s.inTail >= maxBatch || seg.size >= maxBatchBytes {
		s.endTail()
	}
	return nil
}

// append writes to the last segment, or begins one. After an error nothing of raw counts: who wrote it
// is told that it is not there. Needs writing.
func (s *store) append(raw []byte) (*segment, error) {
	fresh := s.tail == nil
	if fresh {
		if err := s.begin(); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	seg := s.segments[len(s.segments)-1]
	s.mu.Unlock()
	_, err := s.tail.Write(raw)
	if err == nil {
		err = s.tail.Sync()
	}
	if err == nil && fresh {
		err = s.disk.syncNames()
	}
	if err == nil {
		return seg, nil
	}
	// It is never synced again. It goes, or the next segment says that it ends here.
	_ = s.tail.Truncate(seg.size)
	s.endTail()
	s.mu.Lock()
	defer s.mu.Unlock()
	if fresh && s.disk.remove(seg.name) == nil && s.disk.syncNames() == nil {
		s.segments = s.segments[:len(s.segments)-1]
		return nil, err
	}
	s.later = append(s.later, &entry{kind: kindCut, head: head{Cut: seg.name, From: seg.size}})
	return nil, err
}

// begin makes another segment. Needs writing.
func (s *store) begin() error {
	s.mu.Lock()
	name := fmt.Sprintf("%016x%s", s.serial, logSuffix)
	s.serial++
	s.mu.Unlock()
	f, err := s.disk.create(name)
	if err != nil {
		return err
	}
	s.tail, s.inTail = f, 0
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments = append(s.segments, &segment{name: name})
	return nil
}

// endTail has the next frame begin another segment. Needs writing.
func (s *store) endTail() {
	if s.tail != nil {
		_ = s.tail.Close()
		s.tail, s.inTail = nil, 0
	}
}

// take notes what an entry says. Needs mu.
func (s *store) take(seg *segment, at int64, sh shape, h head) {
	switch sh.kind {
	case kindSave, kindJournal:
		s.unplace(h.ID)
		p := &place{in: seg, at: at, meta: seg, from: at, save: sh, address: sh}
		s.places[h.ID] = p
		seg.live++
		s.items += p.size()
	case kindAddress:
		if p := s.places[h.ID]; p != nil {
			s.items -= p.size()
			p.meta, p.from, p.address = seg, at, sh
			s.items += p.size()
		}
	case kindEnd:
		s.unplace(h.ID)
	}
}

// unplace has an item not count any more. Needs mu.
func (s *store) unplace(id string) {
	if p := s.places[id]; p != nil {
		delete(s.places, id)
		p.in.live--
		s.items -= p.size()
	}
}

// removeBodies removes the content of large items whose end is durable. Needs mu.
func (s *store) removeBodies() {
	s.ended = slices.DeleteFunc(s.ended, func(c Clear) bool {
		if slices.ContainsFunc(s.later, func(e *entry) bool { return e.kind == kindEnd && e.ID == c.ID }) {
			return false // it ended while the frame was written
		}
		return s.removeBody(c.File)
	})
}

// removeBody removes a file, and the list of its parts; false means that it has to be tried again. Needs mu.
func (s *store) removeBody(name string) bool {
	for _, suffix := range []string{partsSuffix, bodySuffix} {
		if err := s.disk.remove(name + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	s.large -= s.bodies[name]
	delete(s.bodies, name)
	return true
}

// end notes that an item was recorded, or given up with "", or that a journal has ended. That is durable with the next
// frame; until then a loss of power brings it back.
func (s *store) end(c Clear, ref sdk.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places[c.ID] == nil {
		return
	}
	s.unplace(c.ID)
	s.later = append(s.later, endOf(c, ref))
	s.endBody(c)
}

// endBody has the content of a large item that has ended removed. Needs mu.
func (s *store) endBody(c Clear) {
	if _, there := s.bodies[c.File]; there {
		s.ended = append(s.ended, c)
	}
}

// endOf says what became of an item: what was saved upon it replaces its record, or what it stood upon.
func endOf(c Clear, ref sdk.Ref) *entry {
	return &entry{kind: kindEnd, head: head{Clear: &Clear{ID: c.ID, After: c.After, Record: c.Record}, Ref: ref}}
}

// forget gives an item up, durably: it never comes back.
func (s *store) forget(ctx context.Context, c Clear) error {
	s.mu.Lock()
	_, there := s.places[c.ID]
	s.mu.Unlock()
	if !there {
		return fs.ErrNotExist
	}
	e := endOf(c, "")
	e.now = s.now
	if err := s.add(ctx, e); err != nil {
		return err
	}
	s.mu.Lock()
	s.endBody(c)
	s.removeBodies()
	s.mu.Unlock()
	s.writing <- struct{}{}
	s.endTail() // its content goes as soon as nothing beside it waits
	s.trim()
	<-s.writing
	return nil
}

// settle makes durable what has ended. Before that is so of what was given up, nothing is sent: after a loss of power
// an item would be sent behind the one that took its place. What was recorded is recorded once, however often it is
// sent.
func (s *store) settle() error {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	err := s.writeNext()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.later, func(e *entry) bool { return e.kind == kindEnd && e.Ref == "" }) {
		return nil
	}
	return err
}

// settleAll makes all durable that has ended.
func (s *store) settleAll() error {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	return s.writeNext()
}

// tidy is settle, and removes what is not needed any more. What fails is done the next time.
func (s *store) tidy() {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	if s.writeNext() == nil {
		s.clean()
		s.trim()
	}
}

// close is settle, and removes the log if nothing in it waits.
func (s *store) close() error {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	err := s.writeNext()
	s.endTail()
	s.trim()
	return err
}
