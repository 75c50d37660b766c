package integration

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
)

var (
	anySeed = flag.Uint64("seed", 1, "the random choices of tests, as a failure names them; 0 = new ones")
	ioSteps = flag.Int("steps", 120, "how many random operations TestRandomIO makes in each of its cases; make soak "+
		"makes many")
)

// testSeed returns the seed of a test's random choices, and names it in the log.
func testSeed(t *testing.T) uint64 {
	t.Helper()
	seed := *anySeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -seed %d", seed)
	return seed
}

// A file on a mount is what a model in memory says, after random reads, writes,
// mappings, truncations, syncs, closes, renames and removals, however the kernel reads
// it (R3): through one descriptor, through several, and on two mounts of one account, of which
// each looks after the other has closed the file. What close and fsync promise is
// compared with the ledger (W2).
func TestRandomIO(t *testing.T) {
	w := newWorld(t)
	alice := w.account("alice", "1000000")
	alice.must("group", "create", "team")
	for _, mode := range []string{"keep", "plain"} {
		a, b := alice.mount(mode+"-a", "--kernel-cache", mode), alice.mount(mode+"-b", "--kernel-cache", mode)
		for _, c := range []struct {
			name        string
			descriptors int
			mounts      []*mount
			max         int
		}{
			{"one descriptor", 1, []*mount{a}, ioMaxFile},
			{"several descriptors", 3, []*mount{a}, ioMaxFile},
			{"two mounts", 2, []*mount{a, b}, ioMaxFile},
			{"in blocks", 2, []*mount{a, b}, ioMaxBlocks},
		} {
			if c.max == ioMaxBlocks && mode != "keep" {
				continue // blocks are read in one way
			}
			t.Run(mode+", "+c.name, func(t *testing.T) {
				seed := testSeed(t)
				r := &randomIO{t: t, rng: rand.New(rand.NewPCG(seed, 0)), descriptors: c.descriptors, max: c.max,
					name: strings.ReplaceAll(mode+"-"+c.name, " ", "-")}
				for _, m := range c.mounts {
					r.sides = append(r.sides, &ioSide{m: m})
				}
				defer func() {
					if t.Failed() {
						r.tellSides()
						t.Logf("again: go test ./integration -run '%s' -seed %d -steps %d\n%s", t.Name(), seed,
							*ioSteps, strings.Join(r.log[max(0, len(r.log)-60):], "\n"))
					}
				}()
				r.run(*ioSteps)
			})
		}
		for _, m := range []*mount{a, b} {
			for line := range strings.Lines(m.control("errors")) {
				if !strings.Contains(line, "\tconflict\t") { // W11: the tester lets one mount overtake the other
					t.Errorf("%s, refused: %s", mode, line)
				}
			}
		}
	}
}

const (
	ioMaxBlocks = 6 * mib // two of three files are in blocks then, or become it
	ioMaxFile   = 384 * kib
	ioMaxSpan   = 64 * kib
)

// randomIO is one case: a file, and what it should hold.
type randomIO struct {
	t           *testing.T
	rng         *rand.Rand
	name        string
	descriptors int
	max         int  // bytes of the file
	noMap       bool // the kernel maps nothing of such a mount shared
	sides       []*ioSide
	at          int // the side that works
	log         []string
}

// ioSide is a mount, and what is open there.
type ioSide struct {
	m         *mount
	now       *ioFile
	open      []*ioOpen
	overtaken string // record of the other side's save while this one had changes; "" = none
}

// ioFile is the content of an inode.
type ioFile struct {
	data    []byte
	changed bool   // since it was recorded
	named   bool   // else a rename or a removal took the name away
	seq     string // of the record that was last seen
}

// ioOpen is a descriptor.
type ioOpen struct {
	file        *ioFile
	fd          int
	read, write bool
	append      bool
	mapped      []byte
}

func (r *randomIO) run(steps int) {
	r.side().now = &ioFile{named: true}
	r.openFile(unix.O_RDWR | unix.O_CREAT | unix.O_EXCL)
	r.probeMaps()
	acts := r.acts()
	total := 0
	for _, a := range acts {
		total += a.weight
	}
	for len(r.log) < steps && !r.t.Failed() {
		n := r.rng.IntN(total)
		for _, a := range acts {
			if n -= a.weight; n < 0 {
				a.do()
				break
			}
		}
		r.checkSizes()
	}
	defer r.abandon()
	if r.t.Failed() {
		return
	}
	r.settle()
	got := r.side().m.p.must("get", "team", r.name)
	if want := r.side().now.data; got != string(want) {
		r.differs("the ledger", []byte(got), want, 0)
	}
	for _, s := range r.sides {
		if text := s.m.control("pending"); text != "" {
			r.t.Errorf("pending in %s: %s", s.m.dir, text)
		}
	}
}

// act is a kind of operation, with how often it is chosen.
type act struct {
	weight int
	do     func()
}

func (r *randomIO) acts() []act {
	return []act{
		{14, r.readSome}, {14, r.writeSome}, {10, r.readMapped}, {10, r.writeMapped}, {3, r.syncMapped}, {3, r.unmap},
		{5, r.truncate}, {2, r.truncateByName}, {3, r.sync}, {2, r.forgetPages}, {8, r.reopen}, {4, r.openAnother},
		{1, r.replace}, {1, r.remove},
		{2, r.allocate}, {2, r.copyRange}, {4, r.otherSide}, {2, r.overtake},
	}
}

func (r *randomIO) side() *ioSide { return r.sides[r.at] }

func (r *randomIO) path() string { return r.side().m.path("team", r.name) }

// note keeps an operation for the report of a failure.
func (r *randomIO) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(r.sides) > 1 {
		text = fmt.Sprintf("%c: %s", 'a'+r.at, text)
	}
	r.log = append(r.log, text)
}

func (r *randomIO) must(what string, err error) bool {
	r.t.Helper()
	if err != nil {
		r.t.Errorf("%s: %v", what, err)
	}
	return err == nil
}

// span chooses a range within a length, often near the borders of pages.
func (r *randomIO) span(within int) (off, n int) {
	off, n = r.rng.IntN(within+1), 1+r.rng.IntN(ioMaxSpan)
	switch r.rng.IntN(4) {
	case 0:
		off -= off % os.Getpagesize()
	case 1:
		n = 1 + r.rng.IntN(64)
	}
	return off, min(n, within-off)
}

func (r *randomIO) fresh(n int) []byte {
	p := make([]byte, n)
	fill := byte(1 + r.rng.IntN(255)) // never a hole
	for i := range p {
		p[i] = fill + byte(i/7)
	}
	return p
}

// any chooses a descriptor.
func (r *randomIO) any(fits func(*ioOpen) bool) *ioOpen {
	var list []*ioOpen
	for _, o := range r.side().open {
		if fits(o) {
			list = append(list, o)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[r.rng.IntN(len(list))]
}

func readable(o *ioOpen) bool { return o.read }
func writable(o *ioOpen) bool { return o.write }
func mapped(o *ioOpen) bool   { return o.mapped != nil }

// shows compares bytes with what a descriptor must show.
func (r *randomIO) shows(what string, o *ioOpen, got []byte, off, n int) {
	r.t.Helper()
	if want := cut(o.file.data, off, n); !bytes.Equal(got, want) {
		r.differs(what, got, want, off)
	}
}

func (r *randomIO) differs(what string, got, want []byte, off int) {
	r.t.Helper()
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	r.t.Errorf("%s at %d: %d bytes, want %d; they differ from %d (%#x) on: %x, want %x", what, off, len(got), len(want),
		off+at, off+at,
		cut(got, at, 16), cut(want, at, 16))
}

func cut(data []byte, off, n int) []byte {
	off = min(off, len(data))
	return data[off:min(off+n, len(data))]
}

func (r *randomIO) readSome() {
	o := r.any(readable)
	if o == nil {
		return
	}
	off, n := r.span(r.max)
	if r.rng.IntN(10) == 0 {
		off, n = 0, r.max+1
	}
	r.note("read %d: %d at %d", o.fd, n, off)
	p := make([]byte, n)
	got := 0
	for got < n {
		m, err := unix.Pread(o.fd, p[got:], int64(off+got))
		if !r.must("read", err) || m == 0 {
			break
		}
		got += m
	}
	r.shows("read", o, p[:got], off, n)
}

func (r *randomIO) writeSome() {
	o := r.any(writable)
	if o == nil {
		return
	}
	off, n := r.span(r.max)
	if o.append {
		off = len(o.file.data)
		n = min(n, r.max-off)
	}
	if n == 0 {
		return
	}
	data := r.fresh(n)
	r.note("write %d: %d at %d, of %d", o.fd, n, off, len(o.file.data))
	var m int
	var err error
	if o.append {
		m, err = unix.Write(o.fd, data)
	} else {
		m, err = unix.Pwrite(o.fd, data, int64(off))
	}
	if r.must("write", err) && m != n {
		r.t.Errorf("wrote %d of %d", m, n)
	}
	o.file.put(data, off)
}

func (f *ioFile) put(data []byte, off int) {
	f.resize(max(len(f.data), off+len(data)))
	copy(f.data[off:], data)
	f.changed = true
}

func (f *ioFile) resize(size int) {
	f.changed = f.changed || size != len(f.data)
	if size <= len(f.data) {
		f.data = slices.Clone(f.data[:size])
	} else {
		f.data = append(f.data, make([]byte, size-len(f.data))...)
	}
}

// mapOf maps the file, once for each descriptor: it stays mapped over other operations.
func (r *randomIO) mapOf(o *ioOpen) bool {
	if o.mapped != nil {
		return true
	}
	if r.noMap || len(o.file.data) == 0 {
		return false
	}
	prot := unix.PROT_READ
	if o.write {
		prot |= unix.PROT_WRITE
	}
	p, err := unix.Mmap(o.fd, 0, r.max, prot, unix.MAP_SHARED)
	if !r.must("mmap", err) {
		return false
	}
	o.mapped = p
	return true
}

// probeMaps: before Linux 6.6 a plain mount maps nothing shared (R3).
func (r *randomIO) probeMaps() {
	o := r.side().open[0]
	o.file.put([]byte("probe"), 0)
	_, err := unix.Pwrite(o.fd, []byte("probe"), 0)
	r.must("write", err)
	p, err := unix.Mmap(o.fd, 0, 1, unix.PROT_READ, unix.MAP_SHARED)
	if r.noMap = errors.Is(err, unix.ENODEV) && strings.HasPrefix(r.name, "plain"); r.noMap {
		return
	}
	if r.must("mmap", err) {
		r.must("munmap", unix.Munmap(p))
	}
}

// within is how far a mapping may be touched: what lies on pages behind the end is SIGBUS.
func (o *ioOpen) within() int { return len(o.file.data) }

func (r *randomIO) readMapped() {
	o := r.any(readable)
	if o == nil || o.within() == 0 || !r.mapOf(o) {
		return
	}
	off, n := r.span(o.within())
	if n == 0 {
		return
	}
	r.note("read mapping of %d: %d at %d", o.fd, n, off)
	r.shows("mapping", o, bytes.Clone(o.mapped[off:off+n]), off, n)
}

func (r *randomIO) writeMapped() {
	o := r.any(func(o *ioOpen) bool { return o.read && o.write })
	if o == nil || o.within() == 0 || !r.mapOf(o) {
		return
	}
	off, n := r.span(len(o.file.data))
	if n == 0 {
		return
	}
	data := r.fresh(n)
	r.note("write mapping of %d: %d at %d", o.fd, n, off)
	copy(o.mapped[off:], data)
	o.file.put(data, off)
}

func (r *randomIO) syncMapped() {
	o := r.any(func(o *ioOpen) bool { return o.mapped != nil && o.write })
	if o == nil {
		return
	}
	r.note("msync %d", o.fd)
	if r.must("msync", unix.Msync(o.mapped, unix.MS_SYNC)) {
		r.recorded(o.file, true)
	}
}

func (r *randomIO) unmap() {
	if o := r.any(mapped); o != nil {
		r.note("munmap %d", o.fd)
		r.must("munmap", o.unmap())
	}
}

func (o *ioOpen) unmap() error {
	if o.mapped == nil {
		return nil
	}
	defer func() { o.mapped = nil }()
	return unix.Munmap(o.mapped)
}

func (r *randomIO) truncate() {
	o := r.any(writable)
	if o == nil {
		return
	}
	size := r.size()
	r.note("truncate %d to %d, from %d", o.fd, size, len(o.file.data))
	if r.must("ftruncate", unix.Ftruncate(o.fd, int64(size))) {
		o.file.resize(size)
	}
}

// size chooses a length, often zero or a whole number of pages.
func (r *randomIO) size() int {
	size := r.rng.IntN(r.max + 1)
	switch r.rng.IntN(6) {
	case 0:
		return 0
	case 1:
		return size - size%os.Getpagesize()
	}
	return size
}

func (r *randomIO) truncateByName() {
	s := r.side()
	if s.overtaken != "" {
		return
	}
	size := r.size()
	r.note("truncate by name to %d, from %d", size, len(s.now.data))
	if !r.must("truncate", unix.Truncate(r.path(), int64(size))) {
		return
	}
	s.now.resize(size)
	if s.now.changed && r.hash() == hashOf(s.now.data) ||
		!slices.ContainsFunc(s.open, func(o *ioOpen) bool { return o.file == s.now && o.write }) {
		r.recorded(s.now, false) // saved at once, unless a program that writes will save it
	}
}

func (r *randomIO) sync() {
	o := r.any(writable)
	if o == nil {
		return
	}
	r.note("fsync %d", o.fd)
	var err error
	if r.rng.IntN(2) == 0 {
		err = unix.Fsync(o.fd)
	} else {
		err = unix.Fdatasync(o.fd)
	}
	if r.must("fsync", err) {
		r.recorded(o.file, true)
	}
}

// forgetPages makes the kernel ask for content anew.
func (r *randomIO) forgetPages() {
	if o := r.any(readable); o != nil {
		r.note("forget pages of %d", o.fd)
		r.must("fadvise", unix.Fadvise(o.fd, 0, 0, unix.FADV_DONTNEED))
	}
}

// recorded checks that the ledger has what was just saved. synced: an empty file, too (W5).
func (r *randomIO) recorded(f *ioFile, synced bool) {
	r.t.Helper()
	s := r.side()
	if !f.named || s.overtaken != "" || !f.changed || len(f.data) == 0 && !synced {
		return
	}
	if got, want := r.hash(), hashOf(f.data); got != want {
		r.t.Errorf("the record's hash is %q, want %s of %d bytes", got, want, len(f.data))
	}
	f.changed, f.seq = false, r.attribute("user.svcfs.seq")
}

// hash is that of the record; of a file in blocks that has none, that of what the name holds (W18).
func (r *randomIO) hash() string {
	hash := r.attribute("user.svcfs.sha256")
	if info, err := os.Stat(r.path()); hash == "" && err == nil && info.Size() > 4*mib {
		if data, err := os.ReadFile(r.path()); err == nil {
			return hashOf(data)
		}
	}
	return hash
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// attribute reads an extended attribute of the name, "" where it has none.
func (r *randomIO) attribute(name string) string {
	r.t.Helper()
	p := make([]byte, 200)
	n, err := unix.Getxattr(r.path(), name, p)
	if err != nil {
		return ""
	}
	return string(p[:n])
}

func (r *randomIO) closeFile(o *ioOpen) {
	s := r.side()
	r.note("close %d", o.fd)
	// A mapping that is not unmapped before would keep the file open.
	r.must("munmap", o.unmap())
	closed := r.must("close", unix.Close(o.fd))
	s.open = slices.DeleteFunc(s.open, func(x *ioOpen) bool { return x == o })
	if closed && o.write {
		r.recorded(o.file, false)
	}
}

func (r *randomIO) openFile(flags int) {
	r.t.Helper()
	s := r.side()
	fd, err := unix.Open(r.path(), flags|unix.O_CLOEXEC, 0o600)
	if !r.must("open", err) {
		return
	}
	access := flags & unix.O_ACCMODE
	o := &ioOpen{file: s.now, fd: fd, read: access != unix.O_WRONLY, write: access != unix.O_RDONLY,
		append: flags&unix.O_APPEND != 0}
	if flags&unix.O_TRUNC != 0 {
		s.now.resize(0)
		s.now.changed = true
	}
	r.note("open %d: %s, of %d", fd, flagNames(flags), len(s.now.data))
	s.open = append(s.open, o)
}

func flagNames(flags int) string {
	names := []string{[]string{"read", "write", "both"}[flags&unix.O_ACCMODE]}
	for _, f := range []struct {
		flag int
		name string
	}{{unix.O_CREAT, "create"}, {unix.O_TRUNC, "truncate"}, {unix.O_APPEND, "append"}, {unix.O_DIRECT, "direct"}} {
		if flags&f.flag != 0 {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, " ")
}

func (r *randomIO) someFlags() int {
	flags := []int{unix.O_RDONLY, unix.O_RDWR, unix.O_RDWR, unix.O_WRONLY}[r.rng.IntN(4)]
	if flags != unix.O_RDONLY {
		flags |= []int{0, 0, unix.O_APPEND, unix.O_TRUNC}[r.rng.IntN(4)]
	}
	if r.rng.IntN(6) == 0 {
		flags |= unix.O_DIRECT
	}
	return flags
}

func (r *randomIO) reopen() {
	s := r.side()
	if s.overtaken != "" {
		return
	}
	if o := r.any(func(*ioOpen) bool { return true }); o != nil {
		r.closeFile(o)
	}
	r.openAnother()
}

func (r *randomIO) openAnother() {
	if s := r.side(); s.overtaken == "" && len(s.open) < r.descriptors {
		r.openFile(r.someFlags())
	}
}

// replace saves as editors do: a file of another name, renamed onto this one (W7).
func (r *randomIO) replace() {
	s := r.side()
	if s.overtaken != "" {
		return
	}
	data := r.fresh(1 + r.rng.IntN(r.max))
	r.note("replace by %d bytes", len(data))
	if !r.must("write", os.WriteFile(r.path()+".new", data, 0o600)) ||
		!r.must("rename", os.Rename(r.path()+".new", r.path())) {
		return
	}
	s.now.named = false
	s.now = &ioFile{data: data, changed: true, named: true}
	r.recorded(s.now, false)
}

// remove removes the file, and makes it anew.
func (r *randomIO) remove() {
	s := r.side()
	if s.overtaken != "" || len(s.open) >= r.descriptors {
		return
	}
	r.note("remove")
	if !r.must("remove", os.Remove(r.path())) {
		return
	}
	s.now.named = false
	s.now = &ioFile{named: true, changed: true}
	r.openFile(unix.O_RDWR | unix.O_CREAT | unix.O_EXCL)
}

// allocate is refused, or does what it promises.
func (r *randomIO) allocate() {
	o := r.any(writable)
	if o == nil {
		return
	}
	const punch, zero = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_ZERO_RANGE
	mode := []uint32{0, unix.FALLOC_FL_KEEP_SIZE, punch, zero, zero | unix.FALLOC_FL_KEEP_SIZE}[r.rng.IntN(5)]
	off, n := r.span(r.max)
	if n == 0 {
		return
	}
	err := unix.Fallocate(o.fd, mode, int64(off), int64(n))
	if errors.Is(err, unix.ENOTSUP) {
		return
	}
	r.note("fallocate %d: mode %#x, %d at %d, of %d", o.fd, mode, n, off, len(o.file.data))
	if !r.must("fallocate", err) {
		return
	}
	if mode&unix.FALLOC_FL_KEEP_SIZE == 0 {
		o.file.resize(max(len(o.file.data), off+n))
	}
	if mode != 0 && mode != unix.FALLOC_FL_KEEP_SIZE {
		clear(cut(o.file.data, off, n))
		o.file.changed = true
	}
}

// copyRange copies from one place of the file to another, in the kernel.
func (r *randomIO) copyRange() {
	from, to := r.any(func(o *ioOpen) bool { return o.read && o.write && !o.append }),
		r.any(func(o *ioOpen) bool { return o.write && !o.append })
	if from == nil || to == nil || from.file != to.file {
		return
	}
	off, n := r.span(len(from.file.data))
	at := r.rng.IntN(r.max - n + 1)
	if n == 0 || off < at+n && at < off+n {
		return
	}
	r.note("copy %d to %d: %d from %d to %d, of %d", from.fd, to.fd, n, off, at, len(from.file.data))
	data := bytes.Clone(cut(from.file.data, off, n))
	for done := 0; done < n; {
		in, out := int64(off+done), int64(at+done)
		m, err := unix.CopyFileRange(from.fd, &in, to.fd, &out, n-done, 0)
		if !r.must("copy_file_range", err) {
			return
		}
		if m == 0 {
			r.t.Errorf("copy_file_range copied %d of %d", done, n)
			return
		}
		done += m
	}
	to.file.put(data, at)
}

// checkSizes compares what stat says.
func (r *randomIO) checkSizes() {
	s := r.side()
	var st unix.Stat_t
	for _, o := range s.open {
		if !r.must("fstat", unix.Fstat(o.fd, &st)) {
			continue
		}
		if st.Size != int64(len(o.file.data)) {
			r.t.Errorf("fstat of %d, inode %d: %d bytes, the file has %d", o.fd, st.Ino, st.Size, len(o.file.data))
		}
	}
	if s.overtaken == "" && r.must("stat", unix.Stat(r.path(), &st)) && st.Size != int64(len(s.now.data)) {
		r.t.Errorf("stat, inode %d: %d bytes, want %d", st.Ino, st.Size, len(s.now.data))
	}
}

// settle closes everything on this side, also an empty file with its record.
func (r *randomIO) settle() {
	s := r.side()
	if o := r.any(writable); s.overtaken != "" && o != nil && len(s.now.data) == 0 { // an empty file would wait (W5)
		r.must("ftruncate", unix.Ftruncate(o.fd, 1))
		o.file.resize(1)
	}
	for len(s.open) > 0 {
		r.closeFile(s.open[len(s.open)-1])
	}
	if s.overtaken != "" {
		r.setAside()
	}
	if !s.now.changed {
		return
	}
	r.openFile(unix.O_RDWR)
	if r.t.Failed() {
		return
	}
	r.note("fsync")
	r.must("fsync", unix.Fsync(s.open[0].fd))
	r.recorded(s.now, true)
	r.closeFile(s.open[0])
}

// otherSide closes what can write here, and goes on at the other mount once that mount
// knows what was recorded. A reader may stay open.
func (r *randomIO) otherSide() {
	s := r.side()
	if len(r.sides) == 1 {
		return
	}
	var kept *ioOpen
	if kept = r.any(func(o *ioOpen) bool { return !o.write && s.overtaken == "" && r.rng.IntN(2) == 0 }); kept != nil {
		s.open = slices.DeleteFunc(s.open, func(o *ioOpen) bool { return o == kept })
	}
	r.settle()
	if kept != nil {
		s.open = []*ioOpen{kept}
	}
	seq := r.attribute("user.svcfs.seq")
	r.at = 1 - r.at
	r.note("goes on here at record %s", seq)
	r.sees(seq, s.now.data)
}

// sees waits until this side knows a record, whose content is another inode.
func (r *randomIO) sees(seq string, data []byte) {
	s := r.side()
	proctest.Eventually(r.t, "the other mount knows record "+seq,
		func() bool { return r.attribute("user.svcfs.seq") == seq })
	if s.now == nil || s.now.seq != seq {
		if s.now != nil {
			s.now.named = false
		}
		s.now = &ioFile{data: bytes.Clone(data), named: true, seq: seq}
	}
}

// overtake saves on the other side while this side has changes that are not saved (W11).
// Until it has closed the file, this side uses its descriptors only.
func (r *randomIO) overtake() {
	s := r.side()
	if len(r.sides) == 1 || s.overtaken != "" || !s.now.changed || s.now.seq == "" || r.sides[1-r.at].now == nil ||
		!slices.ContainsFunc(s.open, func(o *ioOpen) bool { return o.file == s.now && o.write }) {
		return
	}
	seq := r.attribute("user.svcfs.seq")
	if seq == "" {
		return
	}
	r.at = 1 - r.at
	data := r.fresh(1 + r.rng.IntN(r.max))
	r.note("overtakes with %d bytes", len(data))
	proctest.Eventually(r.t, "the other mount knows record "+seq,
		func() bool { return r.attribute("user.svcfs.seq") == seq })
	if o := r.side(); o.now.seq != seq {
		o.now.named = false
		o.now = &ioFile{named: true}
	}
	r.must("write", os.WriteFile(r.path(), data, 0o600))
	r.side().now.data, r.side().now.seq = data, r.attribute("user.svcfs.seq")
	r.at = 1 - r.at
	s.overtaken = r.sides[1-r.at].now.seq
}

// setAside: the side that was overtaken has saved, under a name of its own, and shows the other save.
func (r *randomIO) setAside() {
	s, theirs := r.side(), r.sides[1-r.at].now
	var aside []string
	proctest.Eventually(r.t, "the save after another one has a name of its own", func() bool {
		aside, _ = filepath.Glob(r.path() + " (conflict *)")
		return len(aside) == 1
	})
	if got, err := os.ReadFile(aside[0]); err != nil || !bytes.Equal(got, s.now.data) {
		r.t.Errorf("%s has %d bytes, want %d, or others; %v", aside[0], len(got), len(s.now.data), err)
	}
	r.must("remove", os.Remove(aside[0]))
	s.overtaken, s.now.named = "", false
	r.sees(theirs.seq, theirs.data)
}

// tellSides says what each mount shows after a failure.
func (r *randomIO) tellSides() {
	for r.at = range r.sides {
		info, err := os.Stat(r.path())
		for _, o := range r.side().open {
			var st unix.Stat_t
			err := unix.Fstat(o.fd, &st)
			r.t.Logf("%d: inode %d, %d bytes, %v", o.fd, st.Ino, st.Size, err)
		}
		r.t.Logf("%s: record %q, hash %q, state %q, %v, %v; pending: %s", r.path(), r.attribute("user.svcfs.seq"),
			r.attribute("user.svcfs.sha256"), r.attribute("user.svcfs.state"),
			info, err, r.side().m.control("pending"))
	}
}

// abandon closes what is still open, with no more checks.
func (r *randomIO) abandon() {
	for _, s := range r.sides {
		for _, o := range s.open {
			_ = o.unmap()
			_ = unix.Close(o.fd)
		}
	}
}
