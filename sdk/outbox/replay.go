package outbox

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/svcfs/svcfs/sdk"
)

const (
	// firstRead is how much of an entry is read at once, in bytes: more than its head.
	firstRead = 512
	// loaders is how many segments are read at a time when a store is opened.
	loaders = 4
	// searchBytes is how much is searched at a time for the entry behind a damaged one.
	searchBytes = 64 << 10
	// sector is how much of a disk cannot be read, at least, where it says that it cannot, in bytes.
	sector = 4 << 10
)

// sorted returns which files are segments of the log, and which are bodies, by name, of which it is not known yet
// whether an item has them. It sets the number of the next segment.
func (s *store) sorted(list []string) (segments []string, bodies map[string]bool) {
	bodies = make(map[string]bool)
	for _, name := range list {
		number, unread := strings.CutSuffix(name, logSuffix+unreadSuffix)
		number, log := strings.CutSuffix(number, logSuffix)
		if log {
			segments = append(segments, name)
		}
		if n, err := strconv.ParseUint(number, 16, 64); err == nil && (log || unread) {
			s.serial = max(s.serial, n+1)
		}
		for _, suffix := range []string{bodySuffix, partsSuffix} {
			if body, ok := strings.CutSuffix(name, suffix); ok {
				bodies[body] = false
			}
		}
	}
	return segments, bodies
}

// openStore reads what every item shows in the clear, and no content.
func openStore(d disk, readOnly bool) (*store, []Clear, error) {
	s := &store{disk: d, writing: make(chan struct{}, 1), next: 1,
		places: make(map[string]*place), journals: make(map[string]head), bodies: make(map[string]int64)}
	list, err := d.names()
	if err != nil {
		return nil, nil, fmt.Errorf("list the outbox: %w", err)
	}
	slices.Sort(list)
	names, bodies := s.sorted(list)
	scans, err := s.scanAll(names)
	if readOnly && errors.Is(err, fs.ErrNotExist) { // who writes removed it: what it had is in another one
		return openStore(d, readOnly)
	}
	if err != nil {
		return nil, nil, err
	}
	items := s.replayAll(scans)
	all := make([]Clear, 0, len(items))
	for _, c := range items {
		if _, there := bodies[c.File]; there && c.Body > 0 {
			bodies[c.File] = true
			s.bodies[c.File] = c.Body
			s.large += c.Body
		}
		all = append(all, *c)
		s.next = max(s.next, c.Position+1)
	}
	slices.SortFunc(all, func(a, b Clear) int { return cmp.Compare(a.Position, b.Position) })
	if readOnly {
		return s, all, nil
	}
	for name, has := range bodies {
		if !has && len(s.damaged) == 0 && !s.removeBody(name) { // never acknowledged, or ended
			return nil, nil, errors.New("clean the outbox: " + name + bodySuffix + " cannot be removed")
		}
	}
	s.trim()
	return s, all, nil
}

// scan is what a segment holds.
type scan struct {
	name    string
	size    int64
	list    []found
	bad     []int64 // where what is no whole entry begins
	strange bool    // it is no file
}

// found is an entry of a segment.
type found struct {
	says  head
	shape shape
	at    int64
}

func (s *store) scanAll(names []string) ([]*scan, error) {
	scans, errs := make([]*scan, len(names)), make([]error, len(names))
	var readers sync.WaitGroup
	for first := range loaders {
		readers.Go(func() {
			buf := make([]byte, firstRead)
			for i := first; i < len(names); i += loaders {
				scans[i], errs[i] = s.scan(names[i], buf)
			}
		})
	}
	readers.Wait()
	return scans, errors.Join(errs...)
}

// scan reads the heads of the entries of a segment.
func (s *store) scan(name string, buf []byte) (*scan, error) {
	sc := &scan{name: name}
	f, err := s.disk.open(name)
	if errors.Is(err, errDamaged) {
		sc.strange = true
		return sc, nil
	}
	if err == nil {
		defer f.Close()
		sc.size, err = f.Size()
	}
	for at := int64(0); err == nil && at < sc.size; {
		var e found
		if e, err = readHead(f, at, sc.size, buf); errors.Is(err, errDamaged) {
			sc.bad = append(sc.bad, at)
			at, err = nextEntry(f, at+1, sc.size)
			continue
		}
		sc.list = append(sc.list, e)
		at += e.shape.size()
	}
	if err != nil {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	return sc, nil
}

// readHead reads the head of an entry. That the rest is whole is proven where that is cheap: of what has no content.
func readHead(f oldFile, at, end int64, buf []byte) (e found, err error) {
	n, err := readSome(f, buf, at)
	if err != nil {
		return e, err
	}
	sh, err := parseShape(buf[:n])
	if err != nil || at+sh.size() > end {
		return e, errDamaged
	}
	if sh.kind != kindSave {
		whole, err := readEntry(f, at, sh)
		return found{whole.head, sh, at}, err
	}
	raw := buf[:n]
	if need := int64(entryPrefix) + sh.head; need > int64(n) {
		raw = make([]byte, need)
		if n, err := readSome(f, raw, at); err != nil || n < len(raw) {
			return e, cmp.Or(err, errDamaged)
		}
	}
	h, err := sh.parseHead(raw)
	return found{h, sh, at}, err
}

// nextEntry looks for a whole entry from an offset on, and returns end if there is none.
func nextEntry(f oldFile, from, end int64) (int64, error) {
	buf := make([]byte, searchBytes)
	for from < end {
		n, err := readSome(f, buf, from)
		if errors.Is(err, errDamaged) {
			from = (from/sector + 1) * sector
			continue
		}
		if err != nil {
			return end, err
		}
		i := bytes.Index(buf[:n], []byte(entryMagic))
		if i < 0 {
			from += int64(max(n-len(entryMagic)+1, 1))
			continue
		}
		from += int64(i)
		if sh, err := parseShape(buf[i:n]); err == nil && from+sh.size() <= end {
			if _, err := readEntry(f, from, sh); err == nil {
				return from, nil
			}
		}
		from++
	}
	return end, nil
}

// readSome fills p from off, or less at the end of the file, and before what cannot be read.
func readSome(f oldFile, p []byte, off int64) (int, error) {
	n, err := f.ReadAt(p, off)
	if isEnd(err) || n > 0 && errors.Is(err, errDamaged) {
		return n, nil
	}
	return n, err
}

// replayAll does what the entries say, in their order, and returns the items that wait. It is the only
// place that decides what counts after a loss of power.
func (s *store) replayAll(scans []*scan) map[string]*Clear {
	cuts := make(map[string][]head)
	for _, sc := range scans {
		for _, e := range sc.list {
			if e.shape.kind == kindCut {
				cuts[e.says.Cut] = append(cuts[e.says.Cut], e.says)
			}
		}
	}
	newest := -1 // whose end a loss of power may have taken: those behind it hold nothing
	for i, sc := range slices.Backward(scans) {
		isCut := func(at int64) bool {
			return slices.ContainsFunc(cuts[sc.name], func(c head) bool {
				return at >= c.From && (c.To == 0 || at < c.To)
			})
		}
		sc.list = slices.DeleteFunc(sc.list, func(e found) bool { return isCut(e.at) })
		sc.bad = slices.DeleteFunc(sc.bad, isCut)
		if newest < 0 || len(scans[i+1].bad) > 0 { // what says that this one was torn may be lost, too
			s.checkEnd(sc)
		}
		if newest < 0 && len(sc.list) > 0 {
			newest = i
		}
	}
	r := replay{journals: s.journals, items: make(map[string]*Clear), upon: make(map[string][]*Clear),
		ended: make(map[string]ended)}
	for i, sc := range scans {
		if sc.strange {
			s.damaged = append(s.damaged, sc.name)
			continue
		}
		seg := &segment{name: sc.name, size: sc.size}
		s.segments = append(s.segments, seg)
		s.log += seg.size
		if len(sc.bad) > 0 {
			seg.unread = true
			s.blame(sc, i >= newest)
		}
		for _, e := range sc.list {
			r.apply(e.shape.kind, e.says)
			s.take(seg, e.at, e.shape, e.says)
		}
	}
	return r.items
}

// checkEnd proves that all of a segment is whole: of what was written last, a loss of power may have taken any
// part. What it took does not count at a later start either, when other segments are newer.
func (s *store) checkEnd(sc *scan) {
	f, err := s.disk.open(sc.name)
	if err != nil {
		return
	}
	defer f.Close()
	sc.list = slices.DeleteFunc(sc.list, func(e found) bool {
		if e.shape.kind != kindSave {
			return false
		}
		_, err := readEntry(f, e.at, e.shape)
		if errors.Is(err, errDamaged) {
			sc.bad = append(sc.bad, e.at)
			s.later = append(s.later, &entry{kind: kindCut,
				head: head{Cut: sc.name, From: e.at, To: e.at + e.shape.size()}})
		}
		return errors.Is(err, errDamaged)
	})
	slices.Sort(sc.bad)
}

// blame decides whether what cannot be read was never whole, because the power was lost while it was written, or
// is damaged.
func (s *store) blame(sc *scan, last bool) {
	first := sc.bad[0]
	if !last || slices.ContainsFunc(sc.list, func(e found) bool { return e.at > first }) {
		s.damaged = append(s.damaged, sc.name)
		return
	}
	s.torn = append(s.torn, sc.name)
	s.later = append(s.later, &entry{kind: kindCut, head: head{Cut: sc.name, From: first}})
}

// replay is what the entries said so far.
type replay struct {
	journals map[string]head
	items    map[string]*Clear   // that wait
	upon     map[string][]*Clear // by id of an item: those that were saved upon it
	ended    map[string]ended
}

// ended is what became of an item.
type ended struct {
	ref    sdk.Ref // its record; "" = it was given up
	after  string  // what it was saved upon
	record sdk.Ref // what it would have replaced
}

func (r *replay) apply(k kind, says head) {
	switch k {
	case kindSave, kindAddress:
		if says.Apart {
			for _, other := range r.upon[says.ID] {
				if other.After == says.ID {
					other.After = ""
				}
			}
		}
		c := r.items[says.ID]
		if c == nil && k == kindAddress {
			return // it has ended, and its segment is gone
		}
		if c == nil {
			c = &Clear{}
			r.items[says.ID] = c
		}
		*c = *says.Clear
		r.follow(c)
	case kindJournal:
		r.journals[says.ID] = says
	case kindEnd: // also of an item whose segment is gone
		delete(r.items, says.ID)
		delete(r.journals, says.ID)
		r.ended[says.ID] = ended{says.Ref, says.After, says.Clear.Record}
		for _, other := range r.upon[says.ID] {
			if other.After == says.ID {
				r.follow(other)
			}
		}
		delete(r.upon, says.ID)
	}
}

// follow finds what an item stands upon: what it was saved upon may have ended.
func (r *replay) follow(c *Clear) {
	for range len(r.ended) {
		e, ok := r.ended[c.After]
		if !ok || c.After == "" {
			break
		}
		if e.ref != "" {
			c.After, c.Record = "", e.ref
			return
		}
		c.After, c.Record = e.after, cmp.Or(e.record, c.Record)
	}
	if _, ok := r.ended[c.After]; ok {
		c.After = "" // they end in a circle, which nobody wrote here
	}
	if c.After != "" {
		r.upon[c.After] = append(r.upon[c.After], c)
	}
}
