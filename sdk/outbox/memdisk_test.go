package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
)

// memDisk is a disk that forgets, when its power is lost, what was not synced. It records each
// change, so that a test can lose power after any of them.
type memDisk struct {
	mu     sync.Mutex
	steps  []diskStep
	start  map[string][]byte // what was there before the first step
	files  map[string]*bytes.Buffer
	fail   func(step diskStep) error // of tests
	counts map[string]int            // steps by kind
	onSync func()
	noOpen error        // of each open; nil = files can be opened
	size   int64        // 0 = without an end
	read   atomic.Int64 // bytes
}

// diskStep is a change: create, write, cut, sync, rename, remove or names.
type diskStep struct {
	kind, name, to string
	data           []byte
	size           int64 // of cut
}

func newMemDisk() *memDisk {
	return &memDisk{files: map[string]*bytes.Buffer{}, counts: map[string]int{}}
}

func (d *memDisk) do(s diskStep) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		if err := d.fail(s); err != nil {
			return err
		}
	}
	if err := apply(d.files, s); err != nil {
		return err
	}
	d.steps = append(d.steps, s)
	d.counts[s.kind]++
	return nil
}

func apply(files map[string]*bytes.Buffer, s diskStep) error {
	switch s.kind {
	case "create":
		if files[s.name] != nil {
			return fs.ErrExist
		}
		files[s.name] = &bytes.Buffer{}
	case "write":
		files[s.name].Write(s.data)
	case "cut":
		// A copy: who has the file open reads what was there, see open.
		files[s.name] = bytes.NewBuffer(bytes.Clone(files[s.name].Bytes()[:s.size]))
	case "rename":
		if files[s.name] == nil {
			return fs.ErrNotExist
		}
		files[s.to] = files[s.name]
		delete(files, s.name)
	case "remove":
		if files[s.name] == nil {
			return fs.ErrNotExist
		}
		delete(files, s.name)
	}
	return nil
}

func (d *memDisk) names() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.files)), nil
}

func (d *memDisk) create(name string) (newFile, error) {
	return memFile{d, name}, d.do(diskStep{kind: "create", name: name})
}
func (d *memDisk) extend(name string) (newFile, error) {
	d.mu.Lock()
	there := d.files[name] != nil
	d.mu.Unlock()
	if there {
		return memFile{d, name}, nil
	}
	return d.create(name)
}
func (d *memDisk) rename(from, to string) error {
	return d.do(diskStep{kind: "rename", name: from, to: to})
}
func (d *memDisk) remove(name string) error { return d.do(diskStep{kind: "remove", name: name}) }
func (d *memDisk) syncNames() error         { return d.do(diskStep{kind: "names"}) }

func (d *memDisk) free() (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.size == 0 {
		return 1 << 40, nil
	}
	free := d.size
	for _, f := range d.files {
		free -= int64(f.Len())
	}
	return max(free, 0), nil
}

func (d *memDisk) open(name string) (oldFile, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.noOpen != nil {
		return nil, d.noOpen
	}
	f := d.files[name]
	if f == nil {
		return nil, fs.ErrNotExist
	}
	return counted{bytes.NewReader(f.Bytes()), &d.read}, nil // no step changes these bytes
}

// counted counts the bytes that are read.
type counted struct {
	*bytes.Reader
	sum *atomic.Int64
}

func (c counted) Size() (int64, error) { return c.Reader.Size(), nil }
func (c counted) Close() error         { return nil }

func (c counted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Reader.ReadAt(p, off)
	c.sum.Add(int64(n))
	return n, err
}

type memFile struct {
	d    *memDisk
	name string
}

func (f memFile) Write(p []byte) (int, error) {
	return len(p), f.d.do(diskStep{kind: "write", name: f.name, data: bytes.Clone(p)})
}
func (f memFile) Sync() error {
	f.d.mu.Lock()
	onSync := f.d.onSync
	f.d.mu.Unlock()
	if onSync != nil {
		onSync()
	}
	return f.d.do(diskStep{kind: "sync", name: f.name})
}
func (f memFile) Truncate(size int64) error {
	return f.d.do(diskStep{kind: "cut", name: f.name, size: size})
}
func (f memFile) Close() error { return nil }

// loss is what a loss of power leaves of what was not synced.
type loss struct {
	names int // changes of names after the last sync of names that are kept: the first ones, or with a minus the last ones
	bytes int // of each file that was not synced, -1 = all
	// pages, if it is not 0, is the seed of which parts of what is kept and was not synced are empty.
	pages uint64
}

// page is how many bytes a loss of power takes together.
const page = 64

// after returns the disk after a loss of power once the first n steps were done.
func (d *memDisk) after(n int, l loss) *memDisk {
	files := map[string]*bytes.Buffer{} // as programs saw it
	ids := map[string]int{}             // file by name
	content, synced := map[int][]byte{}, map[int]int{}
	for name, text := range d.start {
		id := -1 - len(ids)
		files[name], ids[name] = bytes.NewBuffer(bytes.Clone(text)), id
		content[id], synced[id] = bytes.Clone(text), len(text)
	}
	durable := maps.Clone(ids)
	var unsynced []diskStep
	for i, s := range d.steps[:n] {
		if err := apply(files, s); err != nil {
			panic(fmt.Sprint("step ", i, ": ", err))
		}
		switch s.kind {
		case "create":
			ids[s.name] = i
			content[i] = nil
			unsynced = append(unsynced, diskStep{kind: "link", name: s.name, data: []byte(fmt.Sprint(i))})
		case "write":
			content[ids[s.name]] = append(content[ids[s.name]], s.data...)
		case "cut":
			content[ids[s.name]] = content[ids[s.name]][:s.size]
			synced[ids[s.name]] = min(synced[ids[s.name]], int(s.size))
		case "sync":
			synced[ids[s.name]] = len(content[ids[s.name]])
		case "rename":
			ids[s.to] = ids[s.name]
			delete(ids, s.name)
			unsynced = append(unsynced, s)
		case "remove":
			delete(ids, s.name)
			unsynced = append(unsynced, s)
		case "names":
			unsynced, durable = nil, maps.Clone(ids)
		}
	}
	kept := unsynced[:min(max(l.names, -l.names), len(unsynced))]
	if l.names < 0 {
		kept = unsynced[len(unsynced)-len(kept):]
	}
	for _, s := range kept {
		switch s.kind {
		case "link":
			var id int
			_, _ = fmt.Sscan(string(s.data), &id)
			durable[s.name] = id
		case "rename":
			durable[s.to] = durable[s.name]
			delete(durable, s.name)
		case "remove":
			delete(durable, s.name)
		}
	}
	random := rand.New(rand.NewPCG(l.pages, 0))
	left := newMemDisk()
	left.start = map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(durable)) {
		id := durable[name]
		keep := len(content[id])
		if l.bytes >= 0 {
			keep = min(keep, max(synced[id], l.bytes))
		}
		text := bytes.Clone(content[id][:keep])
		for at := synced[id]; l.pages != 0 && at < keep; {
			end := min((at/page+1)*page, keep)
			if random.IntN(3) == 0 {
				clear(text[at:end])
			}
			at = end
		}
		left.files[name] = bytes.NewBuffer(text)
		left.start[name] = bytes.Clone(text)
	}
	return left
}

var errDisk = errors.New("the disk is broken")
