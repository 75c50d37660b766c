package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/integration/line"
)

// largeSizes says how much of large files is measured.
type largeSizes struct {
	first     [3]int64 // files whose first byte is read, in bytes
	firstReps int      // a few milliseconds each need more turns than the rest; 0 = as the rest
	one       int64    // bytes of the file that is read and written
	log       int64    // bytes of the file that grows
	lines     int      // appended to it, each with a close
	database  int64    // bytes, about
	random    int      // random reads of smallBytes
	scatter   int      // random writes of smallBytes into a new file as long as the longest of first
}

func largeSizesFor(quick bool) largeSizes {
	if quick {
		return largeSizes{first: [3]int64{5_000_000, 8 << 20, 24 << 20}, one: 24 << 20, log: 10 << 20, lines: 3,
			database: 10 << 20, random: 20, scatter: 200}
	}
	return largeSizes{first: [3]int64{20_000_000, 256 << 20, 4 << 30}, firstReps: 9, one: 1 << 30, log: 200 << 20,
		lines: 20, database: 2 << 30, random: 300, scatter: 20_000}
}

// Names of steps that targets of large files refer to.
const (
	stepLargeRead    = "cold sequential read"
	stepLargeWrite   = "write, with close"
	stepLargeRandom  = "random 4 KiB reads, cold"
	stepPerRead      = "fetched for each"
	stepTail         = "tail -c 1M, cold"
	stepTailMoved    = "fetched for it"
	stepAppend       = "append a line, with close"
	stepAppendMoved  = "sent for all"
	stepSQLite       = "one transaction"
	stepSQLiteSent   = "sent"
	stepSQLiteFetch  = "fetched"
	stepReadMemory   = "read"
	stepWriteMemory  = "write"
	stepRandomMemory = "write at random"
	stepServerMemory = "server: more than before, "
)

// largeFile is a file of the data set of large files.
type largeFile struct {
	name string
	make func(path string) error
}

// largeScene is a scene with the files it reads.
type largeScene struct {
	scene
	files   []largeFile
	counted bool // a line without delay stands between the mount and its server
	reps    int  // 0 = as the plan says
}

func bytesText(bytes int64) string {
	if bytes%(1<<20) != 0 {
		return short(float64(bytes)/1e6) + " MB"
	}
	if bytes%(1<<30) == 0 {
		return short(float64(bytes)/(1<<30)) + " GiB"
	}
	return short(mib(bytes)) + " MiB"
}

func (w *world) largeScenes(z largeSizes) []*largeScene {
	random := func(size int64) largeFile {
		return largeFile{fmt.Sprintf("file-%d.bin", size),
			func(path string) error { return writeBlocks(path, w.data, size) }}
	}
	longest, one := random(z.first[2]), random(z.one)
	growing := largeFile{"growing.log", random(z.log + 200_000).make} // its last block is not empty
	database := largeFile{"large.db", func(path string) error { return makeDatabase(path, z.database) }}
	var list []*largeScene

	first := &largeScene{scene: scene{name: "First byte", cold: true}, counted: true, reps: z.firstReps}
	for _, size := range z.first {
		file := random(size)
		first.files = append(first.files, file)
		first.steps = append(first.steps, &step{name: bytesText(size), unit: "ms", lower: true, run: w.firstByte(file)},
			&step{name: fetchedFor(size), unit: "KiB", lower: true, bare: true, run: w.movedFetched(1 << 10)})
	}
	list = append(
		list, first, &largeScene{scene: scene{name: "A cold file of " + bytesText(z.one), cold: true, steps: []*step{
			{name: stepLargeRead, unit: "MiB/s", run: w.largeRead(one, z.one), floor: floorBlocks("read", z.one)},
		}}, files: []largeFile{one}},
		&largeScene{scene: scene{name: "Writing a file of " + bytesText(z.one), steps: []*step{
			{name: stepLargeWrite, unit: "MiB/s", run: w.largeWrite(z.one), floor: floorBlocks("write", z.one),
				after: w.removeLarge},
		}}}, &largeScene{scene: scene{name: "Parts of a cold file of " + bytesText(z.one), cold: true, steps: []*step{
			{name: stepTail, unit: "ms", lower: true, run: w.tail(one)},
			{name: stepTailMoved, unit: "KiB", lower: true, bare: true, run: w.movedFetched(1 << 10)},
			{name: stepLargeRandom, unit: "reads/s", run: w.randomReads(one, z)},
			{name: stepPerRead, unit: "KiB", lower: true, bare: true, run: func(*system, int) (float64, error) {
				return float64(w.moved.Down) / float64(w.readsDone) / (1 << 10), w.nothingCounted()
			}},
		}}, files: []largeFile{one}, counted: true},
		&largeScene{scene: scene{name: fmt.Sprintf("%d lines appended to %s", z.lines, bytesText(z.log)), linger: true,
			steps: []*step{
				{name: stepAppend, unit: "ms", lower: true, run: w.appendLines(growing, z.lines)},
				{name: stepAppendMoved, unit: "MiB", lower: true, bare: true, run: w.movedSent},
			}}, files: []largeFile{growing}, counted: true},
		&largeScene{scene: scene{name: "An SQLite database of " + bytesText(z.database), linger: true, cold: true,
			steps: []*step{
				{name: stepSQLite, unit: "ms", lower: true, run: w.transaction(database)},
				{name: stepSQLiteSent, unit: "MiB", lower: true, bare: true, run: w.movedSent},
				{name: stepSQLiteFetch, unit: "MiB", lower: true, bare: true, run: w.movedFetched(1 << 20)},
			}}, files: []largeFile{database}, counted: true},
		&largeScene{scene: scene{name: "Memory for " + bytesText(z.first[2]), cold: true, steps: []*step{
			{name: stepReadMemory, unit: "MiB/s", run: w.largeRead(longest, z.first[2])},
			{name: stepServerMemory + stepReadMemory, unit: "MiB", lower: true, bare: true, run: w.serverMemory},
			{name: stepWriteMemory, unit: "MiB/s", run: w.largeWrite(z.first[2]), after: w.removeLarge},
			{name: stepServerMemory + stepWriteMemory, unit: "MiB", lower: true, bare: true, run: w.serverMemory},
			{name: stepRandomMemory, unit: "s", lower: true, run: w.scatter(z), after: w.removeLarge},
			{name: stepServerMemory + stepRandomMemory, unit: "MiB", lower: true, bare: true, run: w.serverMemory},
		}}, files: []largeFile{longest}, reps: 1})
	return list
}

func fetchedFor(size int64) string { return "fetched, " + bytesText(size) }

// large measures files of format version 2 beside the peers that encrypt or go over a network.
func (w *world) large(out string, quick bool) error {
	begun, load := time.Now(), loadAverage()
	log.SetOutput(io.Discard)
	w.small, w.listed, w.big = 1, 1, 2*smallBytes // the data set of the other modes is of no interest here
	whole := w.data
	w.data = whole[:w.big]
	if w.only == nil {
		w.only = []string{svcfsKeep, "gocryptfs", "rclone", "sshfs"}
	}
	if err := w.prepare(w.svcfs, w.gocryptfs, w.rclone, w.sshfs); err != nil {
		return err
	}
	w.data = whole
	floor, err := w.newPipeline()
	if err != nil {
		return err
	}
	z := largeSizesFor(quick)
	if _, err := floor.client("write-blocks", 1, z.one); err != nil {
		return err
	}
	r := &results{cells: make(map[*step]map[string]*cell), idle: make(map[string][]int64)}
	list := slices.DeleteFunc(w.largeScenes(z), func(sc *largeScene) bool { return !isChosen(w.rows, sc.name) })
	for i, sc := range list {
		progress("%v: %s", time.Since(begun).Round(time.Second), sc.name)
		later := func(f largeFile) bool {
			return slices.ContainsFunc(list[i+1:],
				func(o *largeScene) bool { return slices.ContainsFunc(o.files, f.same) })
		}
		if err := w.playLarge(r, sc, floor, later); err != nil {
			return err
		}
	}
	if w.over.Load() {
		return nil
	}
	rep := &report{w: w, r: r, begun: begun, load: load}
	for _, sc := range list {
		rep.scenes = append(rep.scenes, &sc.scene)
	}
	if w.rows != "" {
		_, err := os.Stdout.WriteString(rep.largeTables())
		return err
	}
	return os.WriteFile(filepath.Join(out, "large.md"), []byte(rep.largeMarkdown(z)), 0o644)
}

func (f largeFile) same(o largeFile) bool { return f.name == o.name }

// playLarge lets all play a scene, with files that nobody needs any longer taken away.
func (w *world) playLarge(r *results, sc *largeScene, floor *pipeline, later func(largeFile) bool) error {
	for _, f := range sc.files {
		if w.stored[f.name] {
			continue
		}
		if err := w.store(f); err != nil {
			return err
		}
	}
	for _, s := range w.systems {
		var through *line.Shape
		if sc.counted {
			through = &line.Shape{}
		}
		if err := s.reach(through); err != nil {
			return err
		}
		if err := warm(s.stored...); err != nil {
			return err
		}
	}
	reps := w.reps
	if sc.reps > 0 {
		reps = sc.reps
	}
	for rep := range reps {
		w.turn(r, &sc.scene, floor, rep)
	}
	for _, f := range sc.files {
		if later(f) {
			continue
		}
		delete(w.stored, f.name)
		for _, s := range w.systems {
			if s.missing == "" && s.name != rcloneOff && s.up(false) == nil { // both of rclone show one folder
				_ = os.Remove(s.path(setBig, f.name)) // only room
				_ = s.down()
			}
		}
	}
	return nil
}

// store makes a file and gives it to every system.
func (w *world) store(f largeFile) error {
	path := w.path(f.name)
	if err := f.make(path); err != nil {
		return fmt.Errorf("make %s: %w", f.name, err)
	}
	if w.stored == nil {
		w.stored = make(map[string]bool)
	}
	w.stored[f.name] = true
	for _, s := range w.systems {
		if s.missing != "" {
			continue
		}
		progress("%s: storing %s", s.name, f.name)
		add := s.add
		if add == nil {
			add = s.addThrough
		}
		if err := add(f.name, path); err != nil {
			return fmt.Errorf("%s: store %s: %w%s", s.name, f.name, err, w.ended())
		}
	}
	return os.Remove(path)
}

// addThrough copies a local file through the mount.
func (s *system) addThrough(name, path string) error {
	if err := s.up(false); err != nil {
		return err
	}
	_, err := commandOutput("cp", path, s.path(setBig, name))
	return errors.Join(err, s.down())
}

// makeDatabase makes a table of numbered rows, about size bytes long.
func makeDatabase(path string, size int64) error {
	const row = 4000
	_, err := commandOutput("sqlite3", path, fmt.Sprintf(`pragma journal_mode=off; pragma synchronous=off; create table t(id integer primary key, at, body);
		with recursive n(i) as (select 1 union all select i+1 from n where i < %d) insert into t select i, 0, randomblob(%d) from n;`, size/(row+96), row))
	return err
}

// countMoved remembers what passed since before.
func (w *world) countMoved(s *system, before line.Moved) {
	now := s.moved()
	w.moved, w.movedKnown = line.Moved{Up: now.Up - before.Up, Down: now.Down - before.Down,
		Turns: now.Turns - before.Turns}, s.way != nil
}

// errUnknown is a figure that a system does not have.
var errUnknown = errors.New("it has no such figure")

func (w *world) nothingCounted() error {
	if !w.movedKnown {
		return errUnknown
	}
	return nil
}

// movedFetched tells what the step before fetched, in units of so many bytes.
func (w *world) movedFetched(unit int64) func(*system, int) (float64, error) {
	return func(*system, int) (float64, error) {
		return float64(w.moved.Down) / float64(unit), w.nothingCounted()
	}
}

func (w *world) movedSent(s *system, _ int) (float64, error) {
	if s.linger > 0 && w.movedKnown { // it says that a close is done and sends later
		before := s.moved()
		time.Sleep(s.linger)
		w.moved.Up += s.moved().Up - before.Up
	}
	return mib(w.moved.Up), w.nothingCounted()
}

// firstByte opens a cold file of a known folder and reads one byte.
func (w *world) firstByte(file largeFile) func(*system, int) (float64, error) {
	return func(s *system, _ int) (float64, error) {
		w.movedKnown = false
		if _, err := os.ReadDir(s.path(setBig)); err != nil {
			return 0, err
		}
		before, begin := s.moved(), time.Now()
		f, err := os.Open(s.path(setBig, file.name))
		if err != nil {
			return 0, err
		}
		defer f.Close()
		_, err = f.Read(make([]byte, 1))
		took := milliseconds(time.Since(begin))
		w.countMoved(s, before)
		return took, err
	}
}

func (w *world) largeRead(file largeFile, size int64) func(*system, int) (float64, error) {
	return func(s *system, _ int) (float64, error) {
		stop := w.watchServer(s)
		begin := time.Now()
		n, err := readFile(s.path(setBig, file.name), make([]byte, blockBytes))
		took := time.Since(begin)
		stop()
		if err == nil && n != size {
			err = fmt.Errorf("read %d of %d bytes", n, size)
		}
		return mib(size) / took.Seconds(), err
	}
}

func (w *world) largeWritten(s *system, rep int) string {
	return s.path(setWrite, fmt.Sprintf("large-%s-%d", fileName(s.name), rep))
}

func (w *world) removeLarge(s *system, rep int) error { return os.Remove(w.largeWritten(s, rep)) }

func (w *world) largeWrite(size int64) func(*system, int) (float64, error) {
	return func(s *system, rep int) (float64, error) {
		stop := w.watchServer(s)
		defer stop()
		copy(w.data, fmt.Sprintf("%s %d %d", s.name, rep, time.Now().UnixNano())) // no two alike
		begin := time.Now()
		err := writeBlocks(w.largeWritten(s, rep), w.data, size)
		return mib(size) / time.Since(begin).Seconds(), err
	}
}

// scatter writes small pieces all over a new file.
func (w *world) scatter(z largeSizes) func(*system, int) (float64, error) {
	return func(s *system, rep int) (float64, error) {
		stop := w.watchServer(s)
		defer stop()
		begin := time.Now()
		f, err := os.Create(w.largeWritten(s, rep))
		if err != nil {
			return 0, err
		}
		err = f.Truncate(z.first[2])
		source := rand.New(rand.NewPCG(2, uint64(rep)))
		for i := 0; i < z.scatter && err == nil; i++ {
			_, err = f.WriteAt(w.data[:smallBytes], source.Int64N(z.first[2]/smallBytes)*smallBytes)
		}
		err = errors.Join(err, f.Close())
		return time.Since(begin).Seconds(), err
	}
}

// watchServer begins to look at the memory of a system's server; the function it returns ends it.
func (w *world) watchServer(s *system) (stop func()) {
	var before int64
	pids := trees(s.servers)
	for _, pid := range pids {
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) // as for clients
		before += statusBytes(pid, "VmRSS:")
	}
	w.serverGrew, w.serverKnown = 0, false
	return func() {
		w.serverKnown = len(pids) > 0
		for _, pid := range pids {
			w.serverGrew += statusBytes(pid, "VmHWM:")
		}
		w.serverGrew -= before
	}
}

func (w *world) serverMemory(*system, int) (float64, error) {
	if !w.serverKnown {
		return 0, errUnknown
	}
	return mib(w.serverGrew), nil
}

func (w *world) tail(file largeFile) func(*system, int) (float64, error) {
	return func(s *system, _ int) (float64, error) {
		w.movedKnown = false
		if _, err := os.ReadDir(s.path(setBig)); err != nil {
			return 0, err
		}
		before, begin := s.moved(), time.Now()
		out, err := exec.Command("tail", "-c", "1M", s.path(setBig, file.name)).Output()
		took := milliseconds(time.Since(begin))
		w.countMoved(s, before)
		if err == nil && len(out) != 1<<20 {
			err = fmt.Errorf("tail printed %d bytes", len(out))
		}
		return took, err
	}
}

// randomReads reads small pieces, no block twice where there are enough.
func (w *world) randomReads(file largeFile, z largeSizes) func(*system, int) (float64, error) {
	return func(s *system, rep int) (float64, error) {
		w.movedKnown = false
		f, err := os.Open(s.path(setBig, file.name))
		if err != nil {
			return 0, err
		}
		defer f.Close()
		source := rand.New(rand.NewPCG(1, uint64(rep)))
		blocks := source.Perm(int(z.one/format.BlockBytes) - 8) // tail had the last ones
		count, buf := min(z.random, len(blocks)), make([]byte, smallBytes)
		before, begin := s.moved(), time.Now()
		w.readsDone = 0
		for _, block := range blocks[:count] {
			at := int64(block)*format.BlockBytes + source.Int64N(format.BlockBytes/smallBytes)*smallBytes
			if _, err := f.ReadAt(buf, at); err != nil {
				return 0, err
			}
			if w.readsDone++; time.Since(begin) > randomLimit {
				break
			}
		}
		took := time.Since(begin)
		w.countMoved(s, before)
		return rate(w.readsDone, took), nil
	}
}

// appendLines appends a line and closes the file, again and again. The step's figure is
// that of one line.
func (w *world) appendLines(file largeFile, lines int) func(*system, int) (float64, error) {
	return func(s *system, rep int) (float64, error) {
		w.movedKnown = false
		before, begin := s.moved(), time.Now()
		for i := range lines {
			f, err := os.OpenFile(s.path(setBig, file.name), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return 0, err
			}
			_, err = fmt.Fprintf(f, "repetition %d, line %d: something happened\n", rep, i)
			if err = errors.Join(err, f.Close()); err != nil {
				return 0, err
			}
		}
		took := milliseconds(time.Since(begin)) / float64(lines)
		w.countMoved(s, before)
		return took, nil
	}
}

// transaction changes one row in the middle of a database.
func (w *world) transaction(file largeFile) func(*system, int) (float64, error) {
	return func(s *system, rep int) (float64, error) {
		w.movedKnown = false
		before, begin := s.moved(), time.Now()
		out, err := exec.Command("sqlite3", s.path(setBig, file.name),
			fmt.Sprintf("update t set at = %d where id = (select max(id)/2 from t); select sum(at) from t where id = "+
				"(select max(id)/2 from t)", rep+1)).CombinedOutput()
		took := milliseconds(time.Since(begin))
		w.countMoved(s, before)
		if want := fmt.Sprintf("%d\n", rep+1); err == nil && !bytes.Equal(out, []byte(want)) {
			err = errors.New("another answer")
		}
		if err != nil {
			return 0, fmt.Errorf("sqlite3: %w: %.200s", err, out)
		}
		return took, nil
	}
}

const howLarge = `The rules are those of results.md: all systems in one session, in turns, medians with the lowest and the highest in brackets, and a target's ratio is the
median of the repetitions' ratios. *Cold*: mounted anew, cache folder emptied; what servers keep is in the page cache. The *bare pipeline* of a large file receives parts
of 32 blocks of 256 KiB, takes each block's leaf (SHA-256) and opens it (AES-256-GCM); or takes the SHA-256 of the file, seals each block, takes its leaf and sends the parts to a server
that syncs each. Two parts are under way at a time, so that two processors work. It has no ledger, no manifest and no file system. Fetched and sent are bytes on the
connections between the mount and its server, headers included, counted by a relay between them; gocryptfs has no server. Memory is the largest resident size of
the mount's processes during the step; that of the server is its largest during the step less what it had before.
The first byte is that of a file whose folder was listed; random reads go to blocks that were not read before.
`

func (r *report) largeMarkdown(z largeSizes) string {
	var b bytes.Buffer
	b.WriteString("# Large files\n\nMade by `make bench BENCH=large`; do not edit.\n\n")
	b.WriteString(r.environment())
	b.WriteString("\n## How it was measured\n\n" + howLarge + "\n## Targets\n\n" + r.targetTable(r.largeTargets(z)) +
		r.largeTables())
	return b.String()
}

func (r *report) largeTables() string {
	var b strings.Builder
	for _, sc := range r.scenes {
		b.WriteString("\n## " + sc.name + "\n\n" + r.table(sc))
	}
	return b.String()
}

func (r *report) largeTargets(z largeSizes) []target {
	ofValues := func(step, a, b string) func(*report) (float64, bool) {
		return func(r *report) (float64, bool) { return r.find(step, a).ratio(r.find(step, b), valueOf) }
	}
	value := func(step string, of float64) func(*report) (float64, bool) {
		return func(r *report) (float64, bool) {
			x, ok := r.value(step, svcfsKeep)
			return x / of, ok
		}
	}
	memory := func(step string) func(*report) (float64, bool) {
		return func(r *report) (float64, bool) { return r.find(step, svcfsKeep).median(peakOf) }
	}
	sealed := float64(format.BlockBytes+format.Overhead) / (1 << 10)
	long := bytesText(z.first[2])
	return []target{
		{"cold first byte of " + long + ", of rclone crypt's time", 1, true, ofValues(long, svcfsKeep, rcloneOff)},
		{"blocks fetched for the first byte of " + long, 1.5, true, value(fetchedFor(z.first[2]), sealed)},
		{"cold read, of the bare pipeline", 0.9, false, ofValues(stepLargeRead, svcfsKeep, namePipeline)},
		{"cold read, of rclone crypt", 2.5, false, ofValues(stepLargeRead, svcfsKeep, rcloneOff)},
		{"write with close, of the bare pipeline", 0.9, false, ofValues(stepLargeWrite, svcfsKeep, namePipeline)},
		{"write with close, of rclone crypt", 2, false, ofValues(stepLargeWrite, svcfsKeep, rcloneOff)},
		{"blocks fetched for a random read of 4 KiB", 1.1, true, value(stepPerRead, sealed)},
		{"tail -c 1M fetches, of the file", 0.05, true, value(stepTailMoved, float64(z.one>>10))},
		{fmt.Sprintf("%d lines appended to %s send, MiB", z.lines, bytesText(z.log)), 20, true,
			value(stepAppendMoved, 1)},
		{"an SQLite transaction sends, MiB", 4, true, value(stepSQLiteSent, 1)},
		{"an SQLite transaction fetches, of the file", 0.05, true, value(stepSQLiteFetch, mib(z.database))},
		{"memory of the mount, reading " + long + ", MiB", 128, true, memory(stepReadMemory)},
		{"the same, writing", 128, true, memory(stepWriteMemory)},
		{"the same, writing at random", 128, true, memory(stepRandomMemory)},
		{"memory of svcd for it, reading, MiB", 64, true, value(stepServerMemory+stepReadMemory, 1)},
		{"the same, writing", 64, true, value(stepServerMemory+stepWriteMemory, 1)},
		{"the same, writing at random", 64, true, value(stepServerMemory+stepRandomMemory, 1)},
	}
}
