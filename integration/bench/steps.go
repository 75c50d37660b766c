package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// step is one thing that is measured.
type step struct {
	name   string
	unit   string
	lower  bool // the smaller the better
	bare   bool // only a figure, of the step before: neither time nor memory of its own
	run    func(s *system, rep int) (float64, error)
	floor  func(f *pipeline) (floorResult, float64, error) // of the bare pipeline; nil = it has none
	direct func(d *direct) (float64, error)                // bare requests to svcd; nil = none
	after  func(s *system, rep int) error                  // not measured; nil = nothing
}

// scene is the steps of one mount.
type scene struct {
	name   string
	cold   bool
	kind   string // for systems that play only one
	linger bool   // what was written must have arrived before the mount ends
	steps  []*step
}

// Names of steps that targets refer to.
const (
	stepWrite     = "write, with close"
	stepFirst     = "cold: first byte"
	stepCold      = "cold sequential read"
	stepWarm      = "second sequential read"
	stepRandom    = "random 4 KiB reads"
	stepParallel  = "parallel readers"
	stepCreate    = "small files: create"
	stepSmallCold = "small files: cold read"
	stepSmallWarm = "small files: warm read"
	stepListCold  = "ls -l, cold"
	stepListWarm  = "ls -l, warm"
	stepStat      = "stat"
	stepCopyIn    = "cp -r in"
	stepCopyOut   = "cp -r out, cold"
)

// sceneList is the kind of the scene that lists a folder.
const sceneList = "list"

// scenes are what every system goes through.
func (w *world) scenes() []*scene {
	big := fmt.Sprintf("%d MiB", w.big>>20)
	return []*scene{
		{name: "One file of " + big, cold: true, steps: []*step{
			{name: stepFirst, unit: "ms", lower: true, run: w.readFirst},
			{name: stepCold, unit: "MiB/s", run: w.readRest, floor: floorBlocks("read", w.big)},
			{name: stepWarm, unit: "MiB/s", run: w.readAgain},
			{name: stepRandom, unit: "reads/s", run: w.readRandom},
			{name: stepParallel, unit: "MiB/s", run: w.readParallel},
		}},
		{name: "Writing a file of " + big,
			steps: []*step{{name: stepWrite, unit: "MiB/s", run: w.writeBig, floor: floorBlocks("write", w.big),
				after: w.removeBig}}},
		{name: fmt.Sprintf("%d files of 4 KiB", w.small), cold: true, steps: []*step{
			{name: stepSmallCold, unit: "files/s", run: w.readSmall, floor: w.floorSmall("read"),
				direct: w.directSmall},
			{name: stepSmallWarm, unit: "files/s", run: w.readSmall},
			{name: stepCreate, unit: "files/s", run: w.createSmall, floor: w.floorSmall("save")},
		}},
		{name: fmt.Sprintf("A folder of %d files", w.listed), kind: sceneList, cold: true, steps: []*step{
			{name: stepListCold, unit: "ms", lower: true, run: w.list, direct: w.directList},
			{name: stepListWarm, unit: "ms", lower: true, run: w.list},
			{name: stepStat, unit: "stats/s", run: w.stat},
		}},
		{name: "Copying a tree", linger: true,
			steps: []*step{{name: stepCopyIn, unit: "s", lower: true, run: w.copyIn}}},
		{name: "Copying a tree back", cold: true,
			steps: []*step{{name: stepCopyOut, unit: "s", lower: true, run: w.copyOut}}},
	}
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

func rate(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// openBig is the large file between its first byte and the rest.
type openBig struct {
	f     *os.File
	begin time.Time
}

// readFirst opens the cold file and reads its first byte; the file stays open for
// readRest.
func (w *world) readFirst(s *system, _ int) (float64, error) {
	begin := time.Now()
	f, err := os.Open(s.path(setBig, bigName))
	if err != nil {
		return 0, err
	}
	if _, err := f.Read(make([]byte, 1)); err != nil {
		return 0, err
	}
	took := milliseconds(time.Since(begin))
	w.open = &openBig{f, begin}
	w.firstTook = took
	return took, nil
}

// readRest reads what is left; the time counts from the open.
func (w *world) readRest(_ *system, _ int) (float64, error) {
	begin := time.Now()
	defer w.open.f.Close()
	n, err := readAll(w.open.f, make([]byte, blockBytes))
	if err == nil && n != w.big-1 {
		err = fmt.Errorf("read %d of %d bytes", n+1, w.big)
	}
	return mib(w.big) / (time.Since(begin).Seconds() + w.firstTook/1000), err
}

// readAll reads to the end with plain reads into buf.
func readAll(f *os.File, buf []byte) (n int64, err error) {
	for {
		got, err := f.Read(buf)
		n += int64(got)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

func readFile(path string, buf []byte) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return readAll(f, buf)
}

// warmFor is how long a warm file is read again and again: once takes a twentieth
// of a second, and any moment of the machine would be the result.
const warmFor = 500 * time.Millisecond

// readAgain is the second time the file is opened and read, and the times after it.
func (w *world) readAgain(s *system, _ int) (float64, error) {
	buf, total := make([]byte, blockBytes), int64(0)
	begin := time.Now()
	for total == 0 || time.Since(begin) < warmFor {
		n, err := readFile(s.path(setBig, bigName), buf)
		if err == nil && n != w.big {
			err = fmt.Errorf("read %d of %d bytes", n, w.big)
		}
		if err != nil {
			return 0, err
		}
		total += n
	}
	return mib(total) / time.Since(begin).Seconds(), nil
}

// randomLimit bounds the random reads of slow systems.
const randomLimit = 3 * time.Second

func (w *world) readRandom(s *system, rep int) (float64, error) {
	f, err := os.Open(s.path(setBig, bigName))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	source := rand.New(rand.NewPCG(1, uint64(rep)))
	buf := make([]byte, smallBytes)
	begin := time.Now()
	for i := range w.random {
		at := source.Int64N(w.big/smallBytes) * smallBytes
		if _, err := f.ReadAt(buf, at); err != nil {
			return 0, err
		}
		if i%64 == 0 && time.Since(begin) > randomLimit {
			return rate(i+1, time.Since(begin)), nil
		}
	}
	return rate(w.random, time.Since(begin)), nil
}

// readParallel lets readers read the whole file at the same time.
func (w *world) readParallel(s *system, _ int) (float64, error) {
	begin := time.Now()
	err := inParallel(w.readers, w.readers, func(int) error {
		_, err := readFile(s.path(setBig, bigName), make([]byte, blockBytes))
		return err
	})
	return mib(w.big*int64(w.readers)) / time.Since(begin).Seconds(), err
}

// writeBig writes new content under a new name and closes it.
func (w *world) writeBig(s *system, rep int) (float64, error) {
	copy(w.data, fmt.Sprintf("%s %d %d", s.name, rep, time.Now().UnixNano())) // no two alike
	begin := time.Now()
	f, err := os.Create(w.bigWritten(s, rep))
	if err != nil {
		return 0, err
	}
	for at := 0; at < len(w.data); at += blockBytes {
		if _, err := f.Write(w.data[at:min(at+blockBytes, len(w.data))]); err != nil {
			_ = f.Close()
			return 0, err
		}
	}
	if err := f.Close(); err != nil {
		return 0, err
	}
	took := time.Since(begin)
	return mib(w.big) / took.Seconds(), nil
}

func (w *world) bigWritten(s *system, rep int) string {
	return s.path(setWrite, fmt.Sprintf("big-%s-%d", fileName(s.name), rep))
}

// removeBig makes room: what all have written would not stay in memory.
func (w *world) removeBig(s *system, rep int) error { return os.Remove(w.bigWritten(s, rep)) }

func (w *world) createSmall(s *system, rep int) (float64, error) {
	dir := s.path(setWrite, fmt.Sprintf("small-%s-%d", fileName(s.name), rep))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return 0, err
	}
	content := make([]byte, smallBytes)
	begin := time.Now()
	for i := range w.small {
		copy(content, fmt.Sprintf("%s %d %d", s.name, rep, i))
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file-%05d.dat", i)), content, 0o644); err != nil {
			return 0, err
		}
	}
	return rate(w.small, time.Since(begin)), nil
}

// readSmall reads the files of the data set one after the other.
func (w *world) readSmall(s *system, _ int) (float64, error) {
	buf := make([]byte, 2*smallBytes)
	begin := time.Now()
	for i := range w.small {
		n, err := readFile(s.path(setSmall, fmt.Sprintf("file-%05d.dat", i)), buf)
		if err == nil && n != smallBytes {
			err = fmt.Errorf("read %d bytes", n)
		}
		if err != nil {
			return 0, err
		}
	}
	return rate(w.small, time.Since(begin)), nil
}

// list runs ls -l on the listed folder.
func (w *world) list(s *system, _ int) (float64, error) {
	took, lines, err := listFolder(s.path(setList))
	if err == nil && lines != w.listed+1 {
		err = fmt.Errorf("ls -l printed %d lines for %d files", lines, w.listed)
	}
	return took, err
}

// listFolder runs ls -l and returns milliseconds and lines.
func listFolder(dir string) (took float64, lines int, err error) {
	cmd := exec.Command("ls", "-l", dir)
	cmd.Env = []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
	begin := time.Now()
	out, err := cmd.Output()
	return milliseconds(time.Since(begin)), countLines(out), err
}

func countLines(text []byte) (n int) {
	for _, c := range text {
		if c == '\n' {
			n++
		}
	}
	return n
}

// stat asks for every listed file once.
func (w *world) stat(s *system, _ int) (float64, error) {
	begin := time.Now()
	for i := range w.listed {
		if _, err := os.Lstat(s.path(setList, fmt.Sprintf("entry-%06d.txt", i))); err != nil {
			return 0, err
		}
	}
	return rate(w.listed, time.Since(begin)), nil
}

func (w *world) treeIn(s *system, rep int) string {
	return s.path(setWrite, fmt.Sprintf("tree-%s-%d", fileName(s.name), rep))
}

func (w *world) copyIn(s *system, rep int) (float64, error) {
	return timedCopy(w.tree, w.treeIn(s, rep))
}

// copyOut copies back what copyIn of the same repetition left.
func (w *world) copyOut(s *system, rep int) (float64, error) {
	to := filepath.Join(w.shm, "out")
	defer os.RemoveAll(to)
	took, err := timedCopy(w.treeIn(s, rep), to)
	if err != nil {
		return 0, err
	}
	if out, err := exec.Command("diff", "-r", w.tree, to).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("the copy differs: %.200s", out)
	}
	return took, nil
}

func timedCopy(from, to string) (float64, error) {
	begin := time.Now()
	out, err := exec.Command("cp", "-r", from, to).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("cp -r: %w: %.200s", err, out)
	}
	return time.Since(begin).Seconds(), nil
}

func (w *world) floorSmall(action string) func(f *pipeline) (floorResult, float64, error) {
	return func(f *pipeline) (floorResult, float64, error) {
		r, err := f.client(action, w.small, smallBytes)
		return r, float64(w.small) / r.Seconds, err
	}
}
