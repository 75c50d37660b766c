package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
)

const (
	itemsSuffix = ".items" // of files with items
	newSuffix   = ".new"   // of files that are being written
	goneSuffix  = ".gone"  // behind the id of an item that a later one took the place of, while its file has others
	bodySuffix  = ".body"  // of the content of one large save, whose item is written after it
	// maxBatch is how many items one file has, at most, and maxBatchBytes how long the file is
	// when another item joins it, in bytes.
	maxBatch      = 64
	maxBatchBytes = 4 << 20
)

// store keeps items on a disk. An item that add has taken survives a loss of power, whole,
// until it is removed. Items that are added at the same time share a file and its syncs. It is safe for
// concurrent use.
type store struct {
	disk disk

	writing chan struct{} // one file at a time

	mu     sync.Mutex
	joins  []*joining // wait for the next file
	files  map[string]*itemFile
	places map[string]place // by id of the item
	bodies map[string]int64 // lengths of the files with large content, by id of the item
	used   int64            // bytes of all files
	rooms  int64            // bytes that saves have for themselves, see room
	next   int64            // position
	serial int64            // of the next file that is written anew

	gone  map[string]bool // items with such a name
	stale map[string]bool // files that hold an earlier form of an item, beside others that count

	replaced int64 // removals of what a later item, or a later form, took the place of
	settled  int64 // how many of them a loss of power does not undo

	damaged []string // files that hold what nobody can read; they stay
}

type itemFile struct {
	size int64
	live int // items that were not removed
	all  int
}

// place is where an item lies.
type place struct {
	file     string
	at       int64
	revision int
	shape
}

// joining is an item that waits to be written.
type joining struct {
	r    *record
	done chan struct{}
	err  error // once done is closed
}

// openStore reads what every item shows in the clear, and no content.
func openStore(d disk, readOnly bool) (*store, []Clear, error) {
	s := &store{disk: d, writing: make(chan struct{}, 1), files: make(map[string]*itemFile), places: make(map[string]place), gone: make(map[string]bool), stale: make(map[string]bool), bodies: make(map[string]int64), next: 1}
	list, err := d.names()
	if err != nil {
		return nil, nil, fmt.Errorf("list the outbox: %w", err)
	}
	slices.Sort(list)
	items := make(map[string]Clear, len(list))
	var files []string
	bodies := make(map[string]bool) // by id: whether an item has it
	for _, name := range list {
		switch {
		case strings.HasSuffix(name, newSuffix) && !readOnly: // never acknowledged
			if err := d.remove(name); err != nil {
				return nil, nil, fmt.Errorf("clean the outbox: %w", err)
			}
		case strings.HasSuffix(name, itemsSuffix):
			files = append(files, name)
		case strings.HasSuffix(name, goneSuffix):
			s.gone[strings.TrimSuffix(name, goneSuffix)] = false // until a file has it
		case strings.HasSuffix(name, bodySuffix):
			bodies[strings.TrimSuffix(name, bodySuffix)] = false
		}
	}
	heads := make([]heads, len(files))
	var readers sync.WaitGroup
	for first := range loaders {
		readers.Go(func() {
			buf := make([]byte, firstRead)
			for i := first; i < len(files); i += loaders {
				heads[i] = s.readHeads(files[i], buf)
			}
		})
	}
	readers.Wait()
	for i, name := range files {
		if err := s.load(name, &heads[i], items); err != nil {
			return nil, nil, err
		}
	}
	all := make([]Clear, 0, len(items))
	for _, c := range items {
		if c.Body > 0 {
			if _, there := bodies[c.ID]; !there { // it ended: its content goes first
				s.files[s.places[c.ID].file].live--
				delete(s.places, c.ID)
				s.next = max(s.next, c.Position+1)
				continue
			}
			bodies[c.ID] = true
			s.bodies[c.ID] = c.Body
			s.used += c.Body
		}
		all = append(all, c)
		s.next = max(s.next, c.Position+1)
	}
	slices.SortFunc(all, func(a, b Clear) int { return cmp.Compare(a.Position, b.Position) })
	for id, has := range bodies {
		if !has && !readOnly && len(s.damaged) == 0 { // never acknowledged, or ended
			if err := d.remove(id + bodySuffix); err != nil {
				return nil, nil, fmt.Errorf("clean the outbox: %w", err)
			}
		}
	}
	if !readOnly {
		if err := s.forgetGone(); err != nil {
			return nil, nil, fmt.Errorf("clean the outbox: %w", err)
		}
	}
	for name, f := range s.files {
		if f.live == 0 && !readOnly && !slices.Contains(s.damaged, name) { // newer files have its items
			s.drop(name)
		}
	}
	return s, all, nil
}

const (
	// firstRead is how much of a file is read at once, in bytes: more than the head of an item.
	firstRead = 1 << 10
	// loaders is how many files are read at a time when a store is opened.
	loaders = 4
)

// heads are the heads of the items of one file.
type heads struct {
	list    []Clear
	at      []int64
	shapes  []shape
	size    int64 // of what could be read, in bytes
	damaged bool
	err     error
}

// readHeads reads the heads of the items of one file.
func (s *store) readHeads(name string, buf []byte) (h heads) {
	f, err := s.disk.open(name)
	if errors.Is(err, errDamaged) {
		return heads{damaged: true}
	}
	if err != nil {
		return heads{err: fmt.Errorf("open an item: %w", err)}
	}
	defer f.Close()
	for {
		n, err := readSome(f, buf, h.size)
		if err != nil {
			h.err = fmt.Errorf("read an item: %w", err)
			return h
		}
		if n == 0 && h.size > 0 {
			return h
		}
		sh, err := parseShape(buf[:n])
		var c Clear
		if err == nil {
			head := buf[itemPrefix:n]
			if int64(len(head)) < sh.head {
				head = make([]byte, sh.head)
				if k, readErr := readSome(f, head, h.size+int64(itemPrefix)); readErr != nil || int64(k) < sh.head {
					err = errDamaged
				}
			}
			if err == nil {
				c, err = parseClear(head[:sh.head])
			}
		}
		if err != nil {
			h.damaged = true
			return h
		}
		h.list, h.at, h.shapes = append(h.list, c), append(h.at, h.size), append(h.shapes, sh)
		h.size += sh.size()
	}
}

// load notes the items of one file.
func (s *store) load(name string, h *heads, items map[string]Clear) error {
	if h.err != nil {
		return h.err
	}
	s.files[name] = &itemFile{size: h.size}
	s.used += h.size
	if h.damaged {
		s.damaged = append(s.damaged, name)
	}
	for i, c := range h.list {
		s.take(name, h.at[i], h.shapes[i], c, items)
	}
	return nil
}

// take notes where an item lies. Of several places the newest revision counts.
func (s *store) take(name string, at int64, sh shape, c Clear, items map[string]Clear) {
	f := s.files[name]
	f.all++
	if _, ok := s.gone[c.ID]; ok {
		s.gone[c.ID] = true
		return
	}
	if old, ok := s.places[c.ID]; ok {
		if old.revision >= c.Revision {
			s.stale[name] = true
			return
		}
		s.files[old.file].live--
		s.stale[old.file] = true
	}
	f.live++
	s.places[c.ID] = place{name, at, c.Revision, sh}
	if items != nil {
		items[c.ID] = c
	}
}

// readSome fills p from off, or less at the end of the file.
func readSome(f oldFile, p []byte, off int64) (int, error) {
	n, err := f.ReadAt(p, off)
	if isEnd(err) {
		return n, nil
	}
	return n, err
}

// add writes an item, and gives it the next position. When it returns nil, the item survives a loss of
// power. Otherwise the item is not there, or, after ctx has ended, may be.
func (s *store) add(ctx context.Context, r *record) error {
	j := &joining{r: r, done: make(chan struct{})}
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
			s.writeNext()
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

// leave takes an item from those that wait; false means that it is being written.
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

// writeNext writes a file of the items that wait. Needs writing.
func (s *store) writeNext() {
	s.mu.Lock()
	n, bytes := 0, 0
	for n < len(s.joins) && n < maxBatch && (n == 0 || bytes < maxBatchBytes) {
		bytes += len(s.joins[n].r.body)
		n++
	}
	batch := slices.Clone(s.joins[:n])
	s.joins = slices.Delete(s.joins, 0, n)
	for _, j := range batch {
		if j.r.Position == 0 {
			j.r.Position = s.next
			s.next++
		} else { // it was written before, perhaps a moment ago
			j.r.Revision = s.places[j.r.ID].revision + 1
		}
	}
	s.mu.Unlock()
	if n == 0 {
		return
	}
	records := make([]*record, n)
	for i, j := range batch {
		records[i] = j.r
	}
	err := s.write(records)
	for _, j := range batch {
		j.err = err
		close(j.done)
	}
}

// write makes one file of records, durably. Needs writing.
func (s *store) write(records []*record) error {
	var raw []byte
	var err error
	at := make([]int64, len(records))
	for i, r := range records {
		at[i] = int64(len(raw))
		if raw, err = r.encode(raw); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.serial++
	name := fmt.Sprintf("%016x-%04x", records[0].Position, s.serial&0xffff)
	for s.files[name+itemsSuffix] != nil {
		s.serial++
		name = fmt.Sprintf("%016x-%04x", records[0].Position, s.serial&0xffff)
	}
	s.mu.Unlock()
	if err := s.place(name, raw); err != nil {
		return fmt.Errorf("write to the outbox: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name += itemsSuffix
	s.files[name] = &itemFile{size: int64(len(raw))}
	s.used += int64(len(raw))
	for i, r := range records {
		r.room.fill()
		sh, _ := parseShape(raw[at[i]:])
		old, there := s.places[r.ID]
		if !there && r.Revision > 0 { // it ended while it was written anew
			s.files[name].all++
			s.mark(r.ID)
			continue
		}
		s.take(name, at[i], sh, r.Clear, nil)
		if there {
			s.replaced++
			s.dropEmpty(old.file)
		}
	}
	s.dropEmpty(name)
	return nil
}

// place writes a file under a name, durably. A file that could not be synced never gets its name,
// and is never synced again.
func (s *store) place(name string, raw []byte) error {
	f, err := s.disk.create(name + newSuffix)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.disk.rename(name+newSuffix, name+itemsSuffix)
	}
	if err != nil {
		_ = s.disk.remove(name + newSuffix)
		return err
	}
	if err := s.syncNames(); err != nil {
		_ = s.disk.remove(name + itemsSuffix)
		return err
	}
	return nil
}

// syncNames makes names, and removals, durable.
func (s *store) syncNames() error {
	s.mu.Lock()
	replaced := s.replaced
	s.mu.Unlock()
	if err := s.disk.syncNames(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = max(s.settled, replaced)
	return nil
}

// find opens the file that an item is in. The item may move to another one meanwhile.
func (s *store) find(id string) (place, oldFile, error) {
	for last := ""; ; {
		s.mu.Lock()
		p, ok := s.places[id]
		s.mu.Unlock()
		if !ok {
			return p, nil, fs.ErrNotExist
		}
		f, err := s.disk.open(p.file)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || p.file == last {
			return p, f, err
		}
		last = p.file
	}
}

// read returns an item, whole.
func (s *store) read(id string) (record, error) {
	p, f, err := s.find(id)
	if err != nil {
		return record{}, err
	}
	defer f.Close()
	raw := make([]byte, p.size())
	if n, err := f.ReadAt(raw, p.at); n < len(raw) {
		if isEnd(err) {
			return record{}, errDamaged
		}
		return record{}, err
	}
	return decode(raw)
}

// readBody reads a part of the content of an item.
func (s *store) readBody(id string, p []byte, off int64) (int, error) {
	if s.hasBody(id) {
		f, err := s.disk.open(id + bodySuffix)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		return f.ReadAt(p, off)
	}
	at, f, err := s.find(id)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	want := min(int64(len(p)), max(at.body-off, 0))
	n, err := f.ReadAt(p[:want], at.at+int64(itemPrefix)+at.head+at.meta+off)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// last returns the newest position.
func (s *store) last() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next - 1
}

// readMeta returns the metadata of an item, without its content. Only read proves that it is whole.
func (s *store) readMeta(id string) ([]byte, error) {
	p, f, err := s.find(id)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	meta := make([]byte, p.meta)
	if n, err := f.ReadAt(meta, p.at+int64(itemPrefix)+p.head); n < len(meta) {
		if isEnd(err) {
			return nil, errDamaged
		}
		return nil, err
	}
	return meta, nil
}

// replace writes another form of an item, durably. It keeps its position.
func (s *store) replace(ctx context.Context, r *record) error {
	return s.add(ctx, r)
}

// settle makes durable that what a later item, or a later form of an item, took the place of is gone. Before that
// is so, nothing is sent: after a loss of power what was replaced would be sent behind it, or an earlier form
// would be taken for the item, once the file of the later one is removed.
func (s *store) settle() error {
	s.mu.Lock()
	unsure := s.settled < s.replaced || len(s.stale) > 0
	s.mu.Unlock()
	if !unsure {
		return nil
	}
	err := s.rewriteStale()
	if err == nil {
		err = s.syncNames()
	}
	if err != nil {
		return fmt.Errorf("write to the outbox: %w", err)
	}
	return nil
}

// rewriteStale writes what counts of files with earlier forms anew, and removes these files.
func (s *store) rewriteStale() error {
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	s.mu.Lock()
	var list []string
	for name := range s.stale {
		if s.files[name] == nil || slices.Contains(s.damaged, name) { // what cannot be read stays
			delete(s.stale, name)
			continue
		}
		list = append(list, name)
	}
	s.mu.Unlock()
	for _, name := range list {
		err := s.without(name, "")
		if errors.Is(err, errDamaged) { // it stays for who repairs it, and holds up nothing
			s.mu.Lock()
			delete(s.stale, name)
			s.mu.Unlock()
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remove takes items away. They may be there again after a loss of power, unless forget took them.
func (s *store) remove(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.unplace(id)
	}
}

// overtake takes an item away that a later one took the place of.
func (s *store) overtake(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replaced++
	if p, ok := s.places[id]; ok && (s.files[p.file].live > 1 || len(s.stale) > 0) {
		s.mark(id)
	}
	s.unplace(id)
}

// mark notes on the disk that an item has ended, while a file has it. Needs mu.
func (s *store) mark(id string) {
	if s.gone[id] {
		return
	}
	s.gone[id] = true
	if f, err := s.disk.create(id + goneSuffix); err == nil {
		_ = f.Close()
	}
}

// forgetGone removes the names of items that were taken away, and that no file has any more.
func (s *store) forgetGone() error {
	synced := false
	for id, there := range s.gone {
		if there {
			continue
		}
		if !synced { // the files are gone for good
			if err := s.disk.syncNames(); err != nil {
				return err
			}
			synced = true
		}
		if err := s.disk.remove(id + goneSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		delete(s.gone, id)
	}
	return nil
}

// unplace needs mu.
func (s *store) unplace(id string) {
	p, ok := s.places[id]
	if !ok {
		return
	}
	if p.revision > 0 && len(s.stale) > 0 { // an earlier form of it may be there
		s.mark(id)
	}
	delete(s.places, id)
	s.files[p.file].live--
	s.dropEmpty(p.file)
	if n, ok := s.bodies[id]; ok { // last: without it, an item that comes back is known to have ended
		if err := s.disk.remove(id + bodySuffix); err == nil || errors.Is(err, fs.ErrNotExist) {
			s.used -= n
			delete(s.bodies, id)
		}
	}
}

// dropEmpty removes a file without an item that counts. Needs mu.
func (s *store) dropEmpty(name string) {
	if f := s.files[name]; f != nil && f.live == 0 && !slices.Contains(s.damaged, name) {
		s.drop(name)
	}
}

// drop needs mu.
func (s *store) drop(name string) {
	if err := s.disk.remove(name); err == nil || errors.Is(err, fs.ErrNotExist) {
		s.used -= s.files[name].size
		delete(s.files, name)
		delete(s.stale, name)
	}
}

// forget takes an item away for good: it never comes back. Files that hold it beside others
// are written anew.
func (s *store) forget(ctx context.Context, id string) error {
	select {
	case s.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.writing }()
	s.mu.Lock()
	p, ok := s.places[id]
	var holds []string
	for name, f := range s.files { // also earlier forms of the item
		if ok && f.live > 0 && (name == p.file || f.all > f.live) {
			holds = append(holds, name)
		}
	}
	s.mu.Unlock()
	if !ok {
		return fs.ErrNotExist
	}
	for _, name := range holds {
		if err := s.without(name, id); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.unplace(id)
	s.mu.Unlock()
	return s.syncNames()
}

// without writes the items of a file that still count anew, but for one. Needs writing.
func (s *store) without(name, id string) error {
	var keep []*record
	s.mu.Lock()
	var ids []string
	for other, p := range s.places {
		if p.file == name && other != id {
			ids = append(ids, other)
		}
	}
	s.mu.Unlock()
	for _, other := range ids {
		r, err := s.read(other)
		if err != nil {
			return fmt.Errorf("read an item beside another: %w", err)
		}
		r.Revision++
		keep = append(keep, &r)
	}
	if len(keep) == 0 {
		return nil
	}
	slices.SortFunc(keep, func(a, b *record) int { return cmp.Compare(a.Position, b.Position) })
	return s.write(keep)
}

// room is disk that a save has for itself, until what is written of it takes that. By store.mu.
type room struct {
	s    *store
	left int64
}

// need makes the room n bytes, unless what is used and the rooms of others leave less of limit.
func (r *room) need(n, limit int64) error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if taken := r.s.used + r.s.rooms - r.left; taken+n > limit {
		return fmt.Errorf("%w: %d of %d bytes", ErrFull, taken, limit)
	}
	r.s.rooms += n - r.left
	r.left = n
	return nil
}

// fill gives all of it to what was written. Needs store.mu. nil is no room.
func (r *room) fill() {
	if r != nil {
		r.took(r.left)
	}
}

// took gives n bytes to what was written. Needs store.mu.
func (r *room) took(n int64) {
	if r == nil {
		return
	}
	n = min(n, r.left)
	r.left -= n
	r.s.rooms -= n
}

// end gives back what is left.
func (r *room) end() {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.fill()
}

// bytes returns how much disk the items take.
func (s *store) bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

func (s *store) hasBody(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.bodies[id]
	return ok
}

// body writes the content of a large save, before its item is added.
type body struct {
	store *store
	id    string
	f     newFile
	n     int64
	room  *room
}

// newBody begins a file, which takes from a room, or nil.
func (s *store) newBody(id string, r *room) (*body, error) {
	f, err := s.disk.create(id + bodySuffix)
	if err != nil {
		return nil, fmt.Errorf("write to the outbox: %w", err)
	}
	return &body{store: s, id: id, f: f, room: r}, nil
}

// Write counts what is written as used at once.
func (b *body) Write(p []byte) (int, error) {
	n, err := b.f.Write(p)
	b.n += int64(n)
	b.store.mu.Lock()
	b.store.used += int64(n)
	b.room.took(int64(n))
	b.store.mu.Unlock()
	return n, err
}

// keep makes it durable.
func (b *body) keep() error {
	err := errors.Join(b.f.Sync(), b.f.Close())
	if err == nil {
		err = b.store.disk.syncNames()
	}
	if err != nil {
		return fmt.Errorf("write to the outbox: %w", err)
	}
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	b.store.bodies[b.id] = b.n
	return nil
}

// drop takes it away.
func (b *body) drop() {
	_ = b.f.Close()
	err := b.store.disk.remove(b.id + bodySuffix)
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		b.store.used -= b.n
	}
	delete(b.store.bodies, b.id)
}
