package outbox

import (
	"cmp"
	"errors"
	"io/fs"
)

// find opens the segment that an item is in, or that has its metadata. The item may move meanwhile.
func (s *store) find(id string, meta bool) (p place, f oldFile, err error) {
	for last := ""; ; {
		s.mu.Lock()
		now := s.places[id]
		if now == nil {
			s.mu.Unlock()
			return p, nil, fs.ErrNotExist
		}
		p = *now
		s.mu.Unlock()
		seg := p.in
		if meta {
			seg = p.meta
		}
		f, err := s.disk.open(seg.name)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || seg.name == last {
			return p, f, err
		}
		last = seg.name
	}
}

// read returns an item, whole, as its newest entries say it is.
func (s *store) read(id string) (entry, error) {
	p, f, err := s.find(id, false)
	if err != nil {
		return entry{}, err
	}
	defer f.Close()
	e, err := readEntry(f, p.at, p.save)
	if err == nil && e.Unread {
		err = errDamaged
	}
	if err != nil || p.meta == p.in && p.from == p.at {
		return e, err
	}
	p, newer, err := s.find(id, true)
	if err != nil {
		return entry{}, err
	}
	defer newer.Close()
	address, err := readEntry(newer, p.from, p.address)
	e.Clear, e.meta = address.Clear, address.meta
	return e, err
}

// whole returns an item of which nothing is damaged; of the content of a large save, which has sums of its own, all is
// there.
func (s *store) whole(id string) (entry, error) {
	e, err := s.read(id)
	var f oldFile
	if err == nil && e.Body > 0 {
		f, err = s.openBody(e.File)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return e, errDamaged
	}
	if f == nil {
		return e, err
	}
	defer f.Close()
	if n, err := f.Size(); err != nil || n != e.Body {
		return e, cmp.Or(err, errDamaged)
	}
	return e, nil
}

// openBody opens the content of a large save.
func (s *store) openBody(name string) (oldFile, error) { return s.disk.open(name + bodySuffix) }

// readEntry reads an entry of a segment.
func readEntry(f oldFile, at int64, s shape) (entry, error) {
	raw := make([]byte, s.size())
	if n, err := f.ReadAt(raw, at); n < len(raw) {
		if isEnd(err) {
			return entry{}, errDamaged
		}
		return entry{}, err
	}
	return decode(raw)
}

// readMeta returns the metadata of an item, without its content. Only read proves that it is whole.
func (s *store) readMeta(id string) ([]byte, error) {
	p, f, err := s.find(id, true)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	meta := make([]byte, p.address.meta)
	if n, err := f.ReadAt(meta, p.from+int64(entryPrefix)+p.address.head); n < len(meta) {
		if isEnd(err) {
			return nil, errDamaged
		}
		return nil, err
	}
	return meta, nil
}

// last returns the newest position.
func (s *store) last() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next - 1
}

// bytes returns how much disk the items take.
func (s *store) bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items + s.large
}

// onDisk returns how much disk all takes, with what waits for being removed.
func (s *store) onDisk() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log + s.large
}
