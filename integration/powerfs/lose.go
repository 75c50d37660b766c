package powerfs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

const (
	pageBytes   = 4096 // the kernel writes whole pages
	sectorBytes = 512  // the disk writes whole sectors
	// tornPages is one of how many pages is torn.
	tornPages = 8
)

// kind says what an operation did.
type kind int

const (
	written   kind = iota // data at off of file
	resized               // file has size bytes
	named                 // names changed, all together
	synced                // file, which may be a folder
	syncedAll             // everything
)

// op is one recorded operation.
type op struct {
	kind  kind
	file  uint64
	off   int64
	data  []byte
	size  int64
	names []change
}

// change is one name that got a file, or lost it: to is 0 then.
type change struct {
	folder uint64
	name   string
	to     uint64
}

// sizeOf returns the length of the content behind the operation.
func (o op) sizeOf(content []byte) int64 {
	if o.kind == written {
		return max(int64(len(content)), o.off+int64(len(o.data)))
	}
	return o.size
}

// apply returns the content behind the operation; it changes what it is given.
func (o op) apply(content []byte) []byte {
	size := o.sizeOf(content)
	was := int64(len(content))
	if size > was {
		content = slices.Grow(content, int(size-was))
	}
	content = content[:size]
	if size > was {
		clear(content[was:])
	}
	if o.kind == written {
		copy(content[o.off:], o.data)
	}
	return content
}

// Op describes the operation before a position, for messages. It is "" for position 0.
func (d *Disk) Op(position int) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if position < 1 || position > len(d.log) {
		return ""
	}
	o := d.log[position-1]
	switch o.kind {
	case written:
		return fmt.Sprintf("write %d bytes at %d of %s", len(o.data), o.off, d.nameOf(o.file, position))
	case resized:
		return fmt.Sprintf("resize %s to %d", d.nameOf(o.file, position), o.size)
	case synced:
		return "sync " + d.nameOf(o.file, position)
	case syncedAll:
		return "sync everything"
	}
	text := "names:"
	for _, c := range o.names {
		text += fmt.Sprintf(" %s/%s = %d", d.nameOf(c.folder, position), c.name, c.to)
	}
	return text
}

// nameOf returns the name that a file got last before a position.
func (d *Disk) nameOf(file uint64, position int) string {
	for i := position - 1; i >= 0; i-- {
		for _, c := range d.log[i].names {
			if c.to == file {
				if c.folder == d.root.id {
					return c.name
				}
				return d.nameOf(c.folder, i) + "/" + c.name
			}
		}
	}
	return "."
}

// held is what is certainly on the disk, and what may be.
type held struct {
	content map[uint64][]byte
	names   map[uint64]map[string]uint64
	changes map[uint64][]op // of files, since their last sync
	renames []op            // since the syncs of their folders
}

// Lose writes to dir what the disk may hold when the power goes behind so many operations.
// The same seed chooses the same again; with seed 0 it holds nothing that was not synced.
// The folders of the root that are spared are on another machine, which keeps its power:
// they lose nothing. dir must be an empty folder on another disk.
func (d *Disk) Lose(position int, seed uint64, dir string, spared ...string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if position < 0 || position > len(d.log) {
		return fmt.Errorf("lose power behind operation %d: %d were recorded", position, len(d.log))
	}
	h := held{content: map[uint64][]byte{}, names: map[uint64]map[string]uint64{}, changes: map[uint64][]op{}}
	safe := map[uint64]bool{} // files of other machines
	for _, o := range d.log[:position] {
		h.add(o)
		for _, c := range o.names {
			if safe[c.folder] || c.folder == d.root.id && slices.Contains(spared, c.name) {
				safe[c.to] = true
				h.keep(func(r op) bool { return slices.Contains(r.names, c) })
			}
		}
		if safe[o.file] {
			h.settle(o.file)
		}
	}
	random := rand.New(rand.NewPCG(seed, uint64(position)))
	if seed == 0 {
		h.renames, h.changes = nil, nil
	}
	h.chooseNames(random)
	w := writer{disk: d, held: &h, random: random, done: map[uint64]string{}}
	return w.folder(d.root.id, dir)
}

// add takes the next operation.
func (h *held) add(o op) {
	switch o.kind {
	case written, resized:
		h.changes[o.file] = append(h.changes[o.file], o)
	case named:
		h.renames = append(h.renames, o)
	case synced:
		h.settle(o.file)
		h.keep(func(r op) bool { return r.touches(o.file) })
	case syncedAll:
		for file := range h.changes {
			h.settle(file)
		}
		h.keep(func(op) bool { return true })
	}
}

// settle makes the content of a file durable.
func (h *held) settle(file uint64) {
	for _, o := range h.changes[file] {
		h.content[file] = o.apply(h.content[file])
	}
	delete(h.changes, file)
}

func (o op) touches(folder uint64) bool {
	return slices.ContainsFunc(o.names, func(c change) bool { return c.folder == folder })
}

// keep makes the chosen changes of names durable, and earlier ones that they follow: those
// of the same name or the same file.
func (h *held) keep(chosen func(op) bool) {
	kept, names, files := make([]bool, len(h.renames)), map[change]bool{}, map[uint64]bool{}
	for i := len(h.renames) - 1; i >= 0; i-- {
		o := h.renames[i]
		kept[i] = chosen(o) || slices.ContainsFunc(o.names,
			func(c change) bool { return names[change{c.folder, c.name, 0}] || files[c.to] })
		for _, c := range o.names {
			if kept[i] {
				names[change{c.folder, c.name, 0}] = true
				files[c.to] = c.to != 0
			}
		}
	}
	var rest []op
	for i, o := range h.renames {
		if !kept[i] {
			rest = append(rest, o)
			continue
		}
		for _, c := range o.names {
			if h.names[c.folder] == nil {
				h.names[c.folder] = map[string]uint64{}
			}
			h.names[c.folder][c.name] = c.to
		}
	}
	h.renames = rest
}

// chooseNames decides which names that were not synced are there.
func (h *held) chooseNames(random *rand.Rand) {
	n, left := random.IntN(len(h.renames)+1), len(h.renames)
	switch random.IntN(4) {
	case 0: // none
	case 1:
		h.keep(func(op) bool { return true })
	case 2: // the disk has written a journal up to somewhere
		h.keep(func(op) bool { // it asks from the last to the first
			left--
			return left < n
		})
	default:
		h.keep(func(op) bool { return random.IntN(2) == 0 })
	}
}

// chooseContent returns what is there of a file.
func (h *held) chooseContent(file uint64, random *rand.Rand) []byte {
	before, changes := h.content[file], h.changes[file]
	after := func(n int) []byte {
		content := slices.Clone(before)
		for _, o := range changes[:n] {
			content = o.apply(content)
		}
		return content
	}
	if len(changes) == 0 {
		return before
	}
	switch random.IntN(5) {
	case 0: // nothing
		return before
	case 1: // everything
		return after(len(changes))
	case 2: // in order
		return after(random.IntN(len(changes) + 1))
	case 3: // the lengths, and no content
		content := slices.Clone(before)
		for _, o := range changes {
			content = op{kind: resized, size: o.sizeOf(content)}.apply(content)
		}
		return content
	default:
		return choosePages(before, changes, random)
	}
}

// piece is a range of bytes that has the content of one version.
type piece struct{ from, to int64 }

// choosePages takes the length of one version, and each page from any version that the
// length allows: those between the two cuts around it.
func choosePages(before []byte, changes []op, random *rand.Rand) []byte {
	sizes, content := []int64{int64(len(before))}, slices.Clone(before)
	for _, o := range changes {
		content = o.apply(content)
		sizes = append(sizes, int64(len(content)))
	}
	chosen := random.IntN(len(sizes))
	first, last := chosen, chosen
	for first > 0 && sizes[first] >= sizes[first-1] {
		first--
	}
	for last+1 < len(sizes) && sizes[last+1] >= sizes[last] {
		last++
	}
	size := sizes[chosen]
	take := map[int][]piece{}
	for from := int64(0); from < size; from += pageBytes {
		to := min(from+pageBytes, size)
		cut := to
		if random.IntN(tornPages) == 0 {
			cut = min(from+sectorBytes*int64(1+random.IntN(pageBytes/sectorBytes-1)), to)
		}
		one, other := first+random.IntN(last-first+1), first+random.IntN(last-first+1)
		take[one] = append(take[one], piece{from, cut})
		take[other] = append(take[other], piece{cut, to})
	}
	out := make([]byte, size)
	content = slices.Clone(before)
	for version := 0; version <= last; version++ {
		if version > 0 {
			content = changes[version-1].apply(content)
		}
		for _, p := range take[version] {
			if p.from < int64(len(content)) {
				copy(out[p.from:p.to], content[p.from:])
			}
		}
	}
	return out
}

// writer writes what is held below a folder.
type writer struct {
	disk   *Disk
	held   *held
	random *rand.Rand
	done   map[uint64]string // where each file is, for its other names
}

func (w *writer) folder(id uint64, dir string) error {
	w.done[id] = dir
	names := w.held.names[id]
	sorted := make([]string, 0, len(names))
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted) // so that a seed chooses the same again
	for _, name := range sorted {
		if o := w.disk.objects[names[name]]; o != nil {
			if err := w.put(o, filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *writer) put(o *object, path string) error {
	mode := os.FileMode(o.mode & 0o777)
	before, again := w.done[o.id]
	switch {
	case o.names != nil && again: // a folder has one name
		return nil
	case o.names != nil:
		if err := os.Mkdir(path, mode); err != nil {
			return err
		}
		return w.folder(o.id, path)
	case o.mode&syscall.S_IFMT == syscall.S_IFSOCK:
		return nil
	case again:
		return os.Link(before, path)
	case o.mode&syscall.S_IFMT == syscall.S_IFLNK:
		return os.Symlink(string(o.content), path)
	}
	w.done[o.id] = path
	return os.WriteFile(path, w.held.chooseContent(o.id, w.random), mode)
}
