package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/svcfs/svcfs/integration/line"
)

// networkLine is a line that everything is measured on.
type networkLine struct {
	roundTrip time.Duration
	up, down  int64 // Mbit/s
}

func (n networkLine) shape() *line.Shape {
	return &line.Shape{RoundTrip: n.roundTrip, Up: n.up * 1e6 / 8, Down: n.down * 1e6 / 8}
}

func (n networkLine) String() string {
	return fmt.Sprintf("%d ms, %d/%d Mbit/s", n.roundTrip.Milliseconds(), n.up, n.down)
}

// targetLine is the one that the targets speak of.
var targetLine = networkLine{60 * time.Millisecond, 20, 100}

// networkLines are every delay at one rate, and every rate at one delay.
func networkLines(quick bool) []networkLine {
	if quick {
		return []networkLine{targetLine}
	}
	const ms = time.Millisecond
	return []networkLine{{1 * ms, 20, 100}, {20 * ms, 20, 100}, targetLine, {200 * ms, 20, 100}, {60 * ms, 2, 20},
		{60 * ms, 100, 100}}
}

// networkRow is something that is measured on each line.
type networkRow struct {
	name     string
	cold     bool
	trips    int                     // round trips that it needs on any system
	atATime  int                     // or: so many small files take one
	up, down func(networkLine) int64 // bytes that it moves on any system; nil = none
	listing  bool                    // instead of down: what the system moves
	known    string
	run      func(s *system, tag string) error
	where    networkLine // the only line it is measured on; zero = all
}

const (
	rowCopyIn  = "cp -r"
	rowWriters = "eight writers at once"
	rowWrite   = "write"
	rowRead    = "cold read, one after another"
	rowReaders = "cold read, eight at once"
	rowFirst   = "cold: first byte"
	rowWhole   = "cold read"
	rowList    = "cold ls"
	rowTree    = "cold ls -lR"
	rowIdle    = "idle mount"

	svcfsPlain  = "svcfs"
	svcfsOutbox = "svcfs outbox"
	setTree     = "tree"
	networkJobs = 8
)

func (w *world) networkRows() []*networkRow {
	small := func(l networkLine) int64 { return int64(w.files(l)) * smallBytes }
	return []*networkRow{
		{name: rowCopyIn, atATime: 1, up: small, run: func(s *system, tag string) error {
			_, err := commandOutput("cp", "-r", w.source(w.files(s.line)), s.path(setWrite, "copy-"+tag))
			return err
		}},
		{name: rowWriters, atATime: networkJobs, up: small, run: func(s *system, tag string) error {
			return inParallel(networkJobs, w.files(s.line), func(i int) error {
				return os.WriteFile(s.path(setWrite, fmt.Sprintf("%d-%s", i, tag)), w.data[i:i+smallBytes], 0o644)
			})
		}},
		{name: rowWrite, trips: 1, up: w.written, run: func(s *system, tag string) error {
			return writeBlocks(s.path(setWrite, "large-"+tag), w.data, w.written(s.line))
		}},
		{name: rowRead, cold: true, known: setSmall, atATime: 1, down: small,
			run: func(s *system, _ string) error { return w.readSmallFiles(s, 1) }},
		{name: rowReaders, cold: true, known: setSmall, atATime: networkJobs, down: small,
			run: func(s *system, _ string) error { return w.readSmallFiles(s, networkJobs) }},
		{name: rowFirst, cold: true, known: setBig, trips: 1, run: func(s *system, _ string) error {
			f, err := os.Open(s.path(setBig, bigName))
			if err != nil {
				return err
			}
			_, err = f.Read(make([]byte, 1))
			return errors.Join(err, f.Close())
		}},
		{name: rowWhole, cold: true, known: setBig, trips: 1, down: func(networkLine) int64 { return w.big },
			run: func(s *system, _ string) error {
				n, err := readFile(s.path(setBig, bigName), make([]byte, blockBytes))
				if err == nil && n != w.big {
					err = fmt.Errorf("read %d of %d bytes", n, w.big)
				}
				return err
			}},
		{name: rowList, cold: true, trips: 1, listing: true, run: func(s *system, _ string) error {
			out, err := exec.Command("ls", s.path(setList)).Output()
			if n := bytes.Count(out, []byte{'\n'}); err == nil && n != w.listed {
				err = fmt.Errorf("ls shows %d of %d names", n, w.listed)
			}
			return err
		}},
		{name: rowTree, cold: true, trips: 1, listing: true, run: func(s *system, _ string) error {
			out, err := exec.Command("ls", "-lR", s.path(setTree)).Output()
			if n := bytes.Count(out, []byte(".txt\n")); err == nil && n != w.small {
				err = fmt.Errorf("ls -lR shows %d of %d files", n, w.small)
			}
			return err
		}},
		{name: rowIdle, known: setSmall, where: targetLine,
			run: func(s *system, _ string) error { time.Sleep(w.idle); return nil }},
	}
}

// longestWrite bounds the file that is written: on a slower line it is smaller.
const longestWrite = 20 * time.Second

// written is the size of the file that is written on a line, in bytes.
func (w *world) written(l networkLine) int64 {
	return min(w.big, int64(longestWrite.Seconds())*l.shape().Up)
}

// farFiles is how many small files there are at most on lines with a round trip above far, where
// other systems take a minute for 100.
const (
	farFiles = 40
	far      = 100 * time.Millisecond
)

// files is how many small files are measured on a line.
func (w *world) files(l networkLine) int {
	if l.roundTrip > far {
		return min(w.small, farFiles)
	}
	return w.small
}

// source is a folder with so many small files.
func (w *world) source(files int) string { return w.path(fmt.Sprintf("source-%d", files)) }

// needs returns the round trips that a row needs on a line, on any system.
func (n *network) needs(row *networkRow, l networkLine) int {
	if row.atATime > 0 {
		return (n.w.files(l) + row.atATime - 1) / row.atATime
	}
	return row.trips
}

func (w *world) readSmallFiles(s *system, jobs int) error {
	return inParallel(jobs, w.files(s.line), func(i int) error {
		raw, err := os.ReadFile(s.path(setSmall, fmt.Sprintf("file-%05d.dat", i)))
		if err == nil && len(raw) != smallBytes {
			err = fmt.Errorf("read %d bytes", len(raw))
		}
		return err
	})
}

// treeFiles are the files that ls -lR shows, ten in a folder.
func (w *world) treeFiles() (files []file) {
	for i := range w.small {
		files = append(files, file{fmt.Sprintf("folder-%03d/entry-%d.txt", i/10, i%10), []byte(fmt.Sprintf("%d\n", i))})
	}
	return files
}

// networkCell is what one row took on one line.
type networkCell struct {
	took     time.Duration
	recorded time.Duration // how much later all was with the service; negative = the system does not say
	moved    line.Moved
	err      error
}

type networkKey struct{ line, row, system string }

// network is a run: what was measured, and the lines themselves.
type network struct {
	w     *world
	begun time.Time
	took  time.Duration // with earlier parts
	load  string
	lines []networkLine
	rows  []*networkRow
	cells map[networkKey]networkCell
	raw   map[string]rawLine
}

// rawLine is what a plain connection gets of a line.
type rawLine struct {
	roundTrip time.Duration
	up, down  float64 // Mbit/s
}

func (w *world) network(out string, quick bool) error {
	n := &network{w: w, begun: time.Now(), load: loadAverage(), lines: networkLines(quick),
		cells: map[networkKey]networkCell{}, raw: map[string]rawLine{}}
	chosen, err := n.chosenLines()
	if err != nil {
		return err
	}
	log.SetOutput(io.Discard)
	if err := w.prepare(w.svcfsOnNetwork, w.rclone, w.sshfs); err != nil {
		return err
	}
	for _, l := range n.lines {
		for i := range w.files(l) {
			dir := w.source(w.files(l))
			if err := errors.Join(os.MkdirAll(dir, 0o755),
				os.WriteFile(filepath.Join(dir, fmt.Sprintf("file-%05d.dat", i)), w.data[i*100:i*100+smallBytes],
					0o644)); err != nil {
				return err
			}
		}
	}
	n.rows = slices.DeleteFunc(w.networkRows(), func(row *networkRow) bool { return !isChosen(w.rows, row.name) })
	for i, l := range n.lines {
		if !chosen[i] {
			continue
		}
		raw, err := measureLine(*l.shape())
		if err != nil {
			return fmt.Errorf("measure the line itself: %w", err)
		}
		n.raw[l.String()] = raw
		for _, s := range w.systems {
			if err := s.reach(l.shape()); err != nil {
				return err
			}
			s.line = l
		}
		for _, row := range n.rows {
			if row.where != (networkLine{}) && row.where != l {
				continue
			}
			progress("%v: %s: %s", time.Since(n.begun).Round(time.Second), l, row.name)
			n.measure(l, row, fmt.Sprint(i))
		}
	}
	if w.over.Load() {
		return nil
	}
	if w.rows != "" {
		_, err := os.Stdout.WriteString(n.tables())
		return err
	}
	if err := n.join(filepath.Join(out, partsName)); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "network.md"), []byte(n.markdown()), 0o644)
}

// measure plays a row on all systems: one after another, or at once where nothing is done.
func (n *network) measure(l networkLine, row *networkRow, tag string) {
	var mu sync.Mutex
	jobs := 1
	if row.where != (networkLine{}) { // idle
		jobs = len(n.w.systems)
	}
	_ = inParallel(jobs, len(n.w.systems), func(i int) error {
		s := n.w.systems[i]
		if s.missing != "" || n.w.over.Load() {
			return nil
		}
		c := n.w.playRow(s, row, tag+"-"+fileName(s.name))
		if c.err != nil {
			progress("%s: %s: %v", s.name, row.name, c.err)
		}
		mu.Lock()
		defer mu.Unlock()
		n.cells[networkKey{l.String(), row.name, s.name}] = c
		return nil
	})
}

// playRow measures a row on a system, in a mount of its own.
func (w *world) playRow(s *system, row *networkRow, tag string) (c networkCell) {
	if c.err = s.up(row.cold); c.err != nil {
		return c
	}
	for _, known := range []string{setWrite, row.known} {
		if known != "" {
			_, _ = os.ReadDir(s.path(known))
		}
	}
	time.Sleep(w.settle) // what the mount begins by itself
	before, begin := s.moved(), time.Now()
	c.err = row.run(s, tag)
	c.took, c.recorded = time.Since(begin), -1
	if s.sync != nil && c.err == nil {
		c.err = s.sync()
		c.recorded = time.Since(begin) - c.took
	}
	now := s.moved()
	c.moved = line.Moved{Up: now.Up - before.Up, Down: now.Down - before.Down, Turns: now.Turns - before.Turns}
	if row.up != nil {
		time.Sleep(s.linger)
	}
	return networkCell{c.took, c.recorded, c.moved, errors.Join(c.err, s.down())}
}

// svcfsOnNetwork is svcfs as it is by default, and with the outbox where it has one.
func (w *world) svcfsOnNetwork() ([]*system, error) {
	plain, err := w.svcfsIn(
		[]svcfsMode{{svcfsPlain, "as it is by default: close returns when the file is recorded and synced", nil, ""},
			{svcfsOutbox, "--outbox: close returns when the file is synced on this machine", []string{"--outbox"}, ""}})
	if err != nil {
		return nil, err
	}
	help, err := exec.Command(filepath.Join(w.bin, "svcfs"), "mount", "--help").Output()
	if err != nil {
		return nil, fmt.Errorf("ask svcfs for its flags: %w", err)
	}
	for _, s := range plain {
		if s.name != svcfsOutbox {
			continue
		}
		if !bytes.Contains(help, []byte("--outbox ")) {
			s.missing = "this svcfs has no --outbox"
		}
		s.sync = func() error {
			_, err := commandOutput(filepath.Join(w.bin, "svcfs"), "sync", s.root)
			return err
		}
	}
	return plain, nil
}

// measureLine lets plain connections find out what a line is like.
func measureLine(shape line.Shape) (raw rawLine, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return raw, err
	}
	defer listener.Close()
	size := min(max(shape.Up, shape.Down), 10*min(shape.Up, shape.Down)) / 2
	go func() { // answers a byte with a byte, then takes bytes, then sends as many
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.CopyN(c, c, 11)
				_, _ = io.CopyN(io.Discard, c, size)
				_, _ = c.Write([]byte{1})
				_, _ = c.Write(make([]byte, size))
			}()
		}
	}()
	l, err := line.New(listener.Addr().String(), shape)
	if err != nil {
		return raw, err
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr())
	if err != nil {
		return raw, err
	}
	defer c.Close()
	timed := func(send, receive int64) time.Duration {
		begin := time.Now()
		if err == nil {
			_, err = c.Write(make([]byte, send))
		}
		if err == nil {
			_, err = io.CopyN(io.Discard, c, receive)
		}
		return time.Since(begin)
	}
	timed(1, 1) // the connection is made
	var trips []float64
	for range 10 {
		trips = append(trips, float64(timed(1, 1)))
	}
	raw.roundTrip = time.Duration(median(trips))
	raw.up = float64(size) * 8 / 1e6 / (timed(size, 1) - raw.roundTrip).Seconds()
	raw.down = float64(size) * 8 / 1e6 / timed(0, size).Seconds()
	return raw, err
}

// limit is what a line needs for a row, whatever the system.
func (n *network) limit(l networkLine, row *networkRow, c networkCell) time.Duration {
	shape, seconds := l.shape(), 0.0
	if row.up != nil {
		seconds += float64(row.up(l)) / float64(shape.Up)
	}
	switch {
	case row.listing:
		seconds += float64(c.moved.Down) / float64(shape.Down)
	case row.down != nil:
		seconds += float64(row.down(l)) / float64(shape.Down)
	}
	return time.Duration(n.needs(row, l))*l.roundTrip + time.Duration(seconds*float64(time.Second))
}

func (n *network) cell(l networkLine, row, system string) (c networkCell, ok bool) {
	c, ok = n.cells[networkKey{l.String(), row, system}]
	return c, ok && c.err == nil
}

const howNetwork = `The line is a proxy between each program and its server: half of the round trip each way, a rate each way that all connections share, one round trip more for a new
connection; no slow start, no loss, and headers of TCP do not count (integration/line; its tests are exact, with a clock of their own). The programs and servers are the same as in
results.md. Each row has a mount of its own; *cold*: mounted anew, cache folder emptied, and where a folder is read from it was listed before.

A cell has the time, that time as a multiple of the line's own limit, and as a number of round trips. The line's own limit is what it cannot do without: content / rate + round trips.
For N files one after another these are N, for eight at once N/8, for anything else 1; the content of a listing is what the system itself fetched. Requests are how often a
connection began to send after an answer, in all connections, with what the mount does by itself. What close means differs: svcfs has the file recorded and synced at its service by then,
rclone without its cache and sshfs have it on their server without a sync, rclone with its cache has not sent it yet; it sends one second later.
`

func (n *network) markdown() string {
	var b strings.Builder
	b.WriteString("# On real networks\n\nMade by `make bench BENCH=network`; do not edit.\n\n")
	b.WriteString((&report{w: n.w, r: &results{}, begun: time.Now().Add(-n.took), load: n.load}).environment())
	b.WriteString("\n## How it was measured\n\n" + howNetwork +
		"\n| Line | A byte and its echo, ms | Up, Mbit/s | Down, Mbit/s |\n|---|---:|---:|---:|\n")
	for _, l := range n.lines {
		raw := n.raw[l.String()]
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", l, short(milliseconds(raw.roundTrip)), short(raw.up),
			short(raw.down))
	}
	b.WriteString("\n## Targets\n\nOn the line of " + targetLine.String() + "; the last three on all.\n\n")
	b.WriteString((&report{}).targetTable(n.targets()) + n.behind())
	b.WriteString(n.tables())
	return b.String()
}

func (n *network) tables() string {
	var b strings.Builder
	for _, row := range n.rows {
		b.WriteString("\n## " + n.title(row) + "\n\n" + n.table(row))
	}
	return b.String()
}

func (n *network) title(row *networkRow) string {
	files := fmt.Sprintf("%d files of 4 KiB", n.w.small)
	if n.w.small > farFiles {
		files += fmt.Sprintf(" (%d where the round trip is above %s)", farFiles, far)
	}
	return map[string]string{rowCopyIn: files + ": cp -r", rowWriters: files + ": eight writers at once",
		rowRead: files + ": cold, one after another", rowReaders: files + ": cold, eight at once",
		rowWrite: "A file of " + bytesText(n.w.big) + ", or of what a line sends in " + longestWrite.String() +
			": write, with close", rowFirst: "A file of " + bytesText(n.w.big) + ": first byte, cold",
		rowWhole: "A file of " + bytesText(n.w.big) + ": cold read",
		rowList:  fmt.Sprintf("ls of %d names, cold", n.w.listed),
		rowTree:  fmt.Sprintf("ls -lR of %d files in %d folders, cold", n.w.small, (n.w.small+9)/10),
		rowIdle:  fmt.Sprintf("Idle for %s", n.w.idle)}[row.name]
}

func (n *network) table(row *networkRow) string {
	var b strings.Builder
	b.WriteString("| Line | System | Time, s | of the line's limit | round trips | recorded later, s | requests | " +
		"sent, KiB | fetched, KiB |\n|---|---|---:|---:|---:|---:|---:|---:|---:|\n")
	var failures []string
	for _, l := range n.lines {
		for _, s := range n.w.systems {
			c, measured := n.cells[networkKey{l.String(), row.name, s.name}]
			if !measured {
				continue
			}
			if c.err != nil {
				fmt.Fprintf(&b, "| %s | %s | failed | | | | | | |\n", l, s.name)
				failures = append(failures,
					fmt.Sprintf("\n%s, %s: %.300s\n", l, s.name, strings.ReplaceAll(c.err.Error(), "\n", " ")))
				continue
			}
			multiple, trips, later := "–", "–", "–"
			if limit := n.limit(l, row, c); limit > 0 {
				multiple, trips = short(c.took.Seconds()/limit.Seconds()), short(float64(c.took)/float64(l.roundTrip))
			}
			if c.recorded >= 0 {
				later = short(c.recorded.Seconds())
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %d | %s | %s |\n", l, s.name, short(c.took.Seconds()),
				multiple, trips, later, c.moved.Turns,
				short(float64(c.moved.Up)/1024), short(float64(c.moved.Down)/1024))
		}
	}
	return b.String() + strings.Join(slices.Compact(failures), "")
}

func (n *network) targets() []target {
	row := func(name string) *networkRow {
		return n.rows[slices.IndexFunc(n.rows, func(r *networkRow) bool { return r.name == name })]
	}
	of := func(name, system string, figure func(*networkRow, networkCell) float64) func(*report) (float64, bool) {
		return func(*report) (float64, bool) {
			c, ok := n.cell(targetLine, name, system)
			return figure(row(name), c), ok
		}
	}
	trips := func(each int) func(*networkRow, networkCell) float64 {
		return func(_ *networkRow, c networkCell) float64 {
			return float64(c.took) / float64(targetLine.roundTrip) / float64(each)
		}
	}
	ofLimit := func(row *networkRow, c networkCell) float64 {
		return float64(c.took) / float64(n.limit(targetLine, row, c))
	}
	ahead := func(other string) func(*report) (float64, bool) {
		return func(*report) (float64, bool) { return float64(len(n.behindOf(other))), n.has(other) }
	}
	return []target{
		{fmt.Sprintf("cp -r of %d files, of as many round trips", n.w.small), 1.2, true,
			of(rowCopyIn, svcfsPlain, trips(n.w.small))},
		{"the same with the outbox, s", 2, true,
			of(rowCopyIn, svcfsOutbox, func(_ *networkRow, c networkCell) float64 { return c.took.Seconds() })},
		{"and all recorded, s later", 3, true,
			of(rowCopyIn, svcfsOutbox, func(_ *networkRow, c networkCell) float64 { return c.recorded.Seconds() })},
		{"eight writers at once, of the line's limit", 1.5, true, of(rowWriters, svcfsPlain, ofLimit)},
		{"cold read one after another, round trips each", 1.1, true, of(rowRead, svcfsPlain, trips(n.w.small))},
		{"write of " + bytesText(n.w.written(targetLine)) + ", of the line's limit", 1.05, true,
			of(rowWrite, svcfsPlain, ofLimit)},
		{fmt.Sprintf("cold ls of %d names, round trips besides the bytes", n.w.listed), 3, true,
			of(rowList, svcfsPlain, func(row *networkRow, c networkCell) float64 {
				return float64(c.took-n.limit(targetLine, row, c))/float64(targetLine.roundTrip) + 1
			})},
		{"idle mount, bytes a second", 1000, true, of(rowIdle, svcfsPlain, func(_ *networkRow, c networkCell) float64 {
			return float64(c.moved.Up+c.moved.Down) / c.took.Seconds()
		})},
		{"rows in which rclone crypt (cache off) is ahead", 0, true, ahead(rcloneOff)},
		{"rows in which rclone crypt (cache full) is ahead of svcfs with the outbox", 0, true, ahead(rcloneFull)},
		{"rows in which sshfs is ahead", 0, true, ahead(sshfsName)},
	}
}

func (n *network) has(name string) bool {
	return slices.ContainsFunc(n.w.systems, func(s *system) bool { return s.name == name && s.missing == "" })
}

// svcfsBeside is the svcfs that another system is compared with: where close means the same.
func svcfsBeside(other string) string {
	if other == rcloneFull {
		return svcfsOutbox
	}
	return svcfsPlain
}

// behindOf lists where another system was faster than svcfs.
func (n *network) behindOf(other string) (list []string) {
	for _, l := range n.lines {
		for _, row := range n.rows {
			ours, ok := n.cell(l, row.name, svcfsBeside(other))
			theirs, theirsOk := n.cell(l, row.name, other)
			if ok && theirsOk && n.needs(row, l) > 0 && theirs.took < ours.took {
				list = append(list, fmt.Sprintf("%s (%s, %s and %s s)", row.name, l, short(ours.took.Seconds()),
					short(theirs.took.Seconds())))
			}
		}
	}
	return list
}

func (n *network) behind() (text string) {
	for _, other := range []string{rcloneOff, rcloneFull, sshfsName} {
		if list := n.behindOf(other); len(list) > 0 {
			text += "\n" + other + " is ahead in: " + strings.Join(list, "; ") + ".\n"
		}
	}
	return text
}
