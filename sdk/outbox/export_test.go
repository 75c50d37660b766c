package outbox

import (
	"bytes"
	"strings"
)

// Disk is a disk of tests.
type Disk = memDisk

// NewDisk returns an empty one.
var NewDisk = newMemDisk

// On opens an outbox on a disk of tests.
func On(d *Disk, cfg Config) (*Outbox, error) { return open(d, cfg) }

// Restarted is the disk after the process ended, or, with lost, after a loss of power.
func (d *memDisk) Restarted(lost bool) *memDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := loss{1 << 30, -1, 0}
	if lost {
		l = loss{}
	}
	return d.after(len(d.steps), l)
}

// Files are the files that are there.
func (d *memDisk) Files() map[string][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	files := make(map[string][]byte)
	for name, f := range d.files {
		files[name] = bytes.Clone(f.Bytes())
	}
	return files
}

// Add puts files there.
func (d *memDisk) Add(files map[string][]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, raw := range files {
		d.files[name] = bytes.NewBuffer(raw)
	}
}

// Broken makes every change fail, or with false succeed again.
func (d *memDisk) Broken(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = nil
	if on {
		d.fail = func(diskStep) error { return errDisk }
	}
}

// FailsToOpen makes every open of a file fail, or with nil succeed again.
func (d *memDisk) FailsToOpen(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.noOpen = err
}

// OnSync is called before each sync of content, by who syncs.
func (d *memDisk) OnSync(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onSync = f
}

// Bytes returns how many bytes were read.
func (d *memDisk) Bytes() int64 { return d.read.Load() }

// Has gives the disk a size, in bytes.
func (d *memDisk) Has(size int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.size = size
}

// Kinds are the kinds of all changes so far.
func (d *memDisk) Kinds() (kinds []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.steps {
		kinds = append(kinds, s.kind)
	}
	return kinds
}

// States are all states.
func States() []State { return []State{Waiting, Sending, Recorded, Parked, Conflict, Discarded} }

// LeadsTo is leadsTo.
func (s State) LeadsTo(to State) bool { return s.leadsTo(to) }

// Changed changes what the disk shows in the clear of each item, as who has the disk can.
func (d *memDisk) Changed(change func(*Clear)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, f := range d.files {
		if !strings.HasSuffix(name, logSuffix) {
			continue
		}
		var out []byte
		for rest := f.Bytes(); len(rest) > 0; {
			sh, err := parseShape(rest)
			if err != nil {
				return err
			}
			r, err := decode(rest[:sh.size()])
			if err != nil {
				return err
			}
			if r.Clear != nil {
				change(r.Clear)
			}
			if out, err = r.encode(out); err != nil {
				return err
			}
			rest = rest[sh.size():]
		}
		d.files[name] = bytes.NewBuffer(out)
	}
	return nil
}

// check proves that nothing of an item is damaged.
func (s *store) check(id string) error {
	_, err := s.whole(id)
	return err
}

// Metas are what the log has encrypted of items, beside their content.
func (d *memDisk) Metas() (list [][]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, f := range d.files {
		if !strings.HasSuffix(name, logSuffix) {
			continue
		}
		for rest := f.Bytes(); len(rest) > 0; {
			sh, err := parseShape(rest)
			if err != nil {
				break
			}
			if e, err := decode(rest[:sh.size()]); err == nil && len(e.meta) > 0 {
				list = append(list, bytes.Clone(e.meta))
			}
			rest = rest[sh.size():]
		}
	}
	return list
}
