package cache

// Lease keeps content readable until it is released or purged.
type Lease struct {
	store    *Store
	entry    *entry
	released bool // by Store.mu
}

// Buffer returns the content itself, which may be more than bytes; false after a purge. It
// may end at any moment.
func (l *Lease) Buffer() (Buffer, bool) {
	l.entry.mu.RLock()
	defer l.entry.mu.RUnlock()
	return l.entry.buf, !l.entry.gone
}

// Len returns the length of the content in bytes, 0 after a purge.
func (l *Lease) Len() int64 {
	l.entry.mu.RLock()
	defer l.entry.mu.RUnlock()
	if l.entry.gone {
		return 0
	}
	return int64(len(l.entry.buf.Bytes()))
}

// ReadAt copies content from off into p; n < len(p) only at the end, with a nil
// error. After a purge it fails with [ErrPurged].
func (l *Lease) ReadAt(p []byte, off int64) (n int, err error) {
	l.entry.mu.RLock()
	defer l.entry.mu.RUnlock()
	if l.entry.gone {
		return 0, ErrPurged
	}
	content := l.entry.buf.Bytes()
	if off < 0 || off >= int64(len(content)) {
		return 0, nil
	}
	return copy(p, content[off:]), nil
}

// View is content that was lent, not copied. The zero View is empty.
type View struct {
	Bytes []byte
	entry *entry
	owner *Lease // ends with the view; nil = none
}

// View returns at most n bytes from off as they lie in the cache; fewer only at
// the end. The caller must call Done soon: wiping the content waits for it. After
// a purge it fails with [ErrPurged].
func (l *Lease) View(off int64, n int) (View, error) {
	l.entry.mu.RLock()
	if l.entry.gone {
		l.entry.mu.RUnlock()
		return View{}, ErrPurged
	}
	content := l.entry.buf.Bytes()
	if off < 0 || off >= int64(len(content)) {
		l.entry.mu.RUnlock()
		return View{}, nil
	}
	end := min(off+int64(n), int64(len(content)))
	return View{Bytes: content[off:end:end], entry: l.entry}, nil
}

// Done ends the loan: the bytes may not be touched any more. Call it once.
func (v View) Done() {
	if v.entry != nil {
		v.entry.mu.RUnlock()
	}
	if v.owner != nil {
		v.owner.Release()
	}
}

// ViewOnce is View of a lease that ends with the view, or with the error.
func (l *Lease) ViewOnce(off int64, n int) (View, error) {
	v, err := l.View(off, n)
	if err != nil {
		l.Release()
		return v, err
	}
	v.owner = l
	return v, nil
}

// Again leases the same content once more; nil when it is out of the cache.
func (l *Lease) Again() *Lease {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if l.released || !l.entry.stored {
		return nil
	}
	return l.store.lease(l.entry)
}

// Release gives the lease up. Releasing twice does nothing.
func (l *Lease) Release() {
	s := l.store
	s.mu.Lock()
	if l.released {
		s.mu.Unlock()
		return
	}
	l.released = true
	wipe := s.unlease(l.entry)
	s.mu.Unlock()
	wipeAll(wipe)
}
