package outbox

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
)

// room is disk that a save has for itself, until what is written of it takes that. By store.mu.
type room struct {
	s    *store
	left int64
}

// need makes the room n bytes, unless what is used and the rooms of others leave less of limit.
func (r *room) need(n, limit int64) error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if taken := r.s.items + r.s.large + r.s.rooms - r.left; taken+n > limit {
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

// body writes the content of a large save, before its item is added.
type body struct {
	store *store
	name  string
	f     newFile
	n     int64
	room  *room
}

// newBody begins a file, which takes from a room, or nil.
func (s *store) newBody(r *room) (*body, error) {
	name := randomName()
	f, err := s.disk.create(name + bodySuffix)
	if err != nil {
		return nil, fmt.Errorf("write to the outbox: %w", err)
	}
	return &body{store: s, name: name, f: f, room: r}, nil
}

// randomName is a name that no file has.
func randomName() string {
	var name [16]byte
	_, _ = rand.Read(name[:]) // never fails
	return hex.EncodeToString(name[:])
}

// Write counts what is written as used at once.
func (b *body) Write(p []byte) (int, error) {
	n, err := b.f.Write(p)
	b.n += int64(n)
	b.store.mu.Lock()
	b.store.large += int64(n)
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
	b.store.bodies[b.name] = b.n
	return nil
}

// drop takes it away. nil is no body.
func (b *body) drop() {
	if b == nil {
		return
	}
	_ = b.f.Close()
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	b.store.bodies[b.name] = b.n
	b.store.removeBody(b.name)
}
