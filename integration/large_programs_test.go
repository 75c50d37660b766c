package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/integration/line"
	"github.com/svcfs/svcfs/integration/proctest"
)

// largeProgram is a program that uses a large file on a mount. The script runs in the folder
// that holds the files of largeFiles; SRC is one outside, with the same files. The mount is
// made anew before each, so nothing is in memory.
type largeProgram struct {
	name, tool, script string
	want               string // what it prints

	retrieves, uploads int
	fetched, sent      int64 // blocks, at most; what is not content counts as blocks, too
	note               string
}

const (
	sqliteOpens = "sqlite3 looks at the beginning first, and then opens the file"
	againOpen   = "two commands, the second within a minute"
)

// largeFileBytes is the size of each file that the programs use: 128 blocks.
const largeFileBytes = 32 * mib

// What makes the files, outside of the mount. The archive stores; the film is Matroska, with the index at
// the end, as a recorder leaves it.
const largeFiles = `head -c %[1]d /dev/urandom >data; head -c %[1]d /dev/urandom >other; mkdir in
	split -b 1M data in/part.; zip -q -0 -D -r archive.zip in; rm -r in
	sqlite3 large.db "pragma journal_mode=off; create table t(id integer primary key, at, body);
		with recursive n(i) as (select 1 union all select i+1 from n where i < %[1]d/4100) insert into t select i, 0, randomblob(4000) from n" >/dev/null
	ffmpeg -v error -f lavfi -i testsrc=duration=120:size=320x240:rate=10 -c:v rawvideo -pix_fmt gray -t 45 film.mkv`

func largeProgramsTable() []largeProgram {
	return []largeProgram{
		{name: "tail -c 1M", tool: "tail", script: "tail -c 1M data | cmp - <(tail -c 1M $SRC/data) && echo same",
			want: "same", retrieves: 1, fetched: 8},
		{name: "dd skip=", tool: "dd", script: "dd if=data bs=4k skip=5000 count=1 status=none | cmp - <(dd " +
			"if=$SRC/data bs=4k skip=5000 count=1 status=none) && echo same",
			want: "same", retrieves: 1, fetched: 4},
		{name: "head -c 1", tool: "head", script: "head -c 1 data | cmp - <(head -c 1 $SRC/data) && echo same",
			want: "same", retrieves: 1, fetched: 4},
		{name: "unzip -l, and one file", tool: "unzip",
			script: "unzip -l archive.zip | tail -1 | tr -s ' '; unzip -p archive.zip in/part.ab | cmp - <(dd " +
				"if=$SRC/data bs=1M skip=1 count=1 status=none) && echo same",
			want: " 33554432 32 files\nsame", retrieves: 1, fetched: 24, note: againOpen},
		{name: "sqlite3, one row", tool: "sqlite3", script: "sqlite3 large.db 'select length(body) from t where id " +
			"= 4000'", want: "4000", retrieves: 1, fetched: 8, note: sqliteOpens},
		{name: "sqlite3, one transaction", tool: "sqlite3",
			script: "sqlite3 large.db 'update t set at = 1 where id = 4000; select sum(at) from t where id between " +
				"3999 and 4001'", want: "1",
			retrieves: 1, uploads: 1, fetched: 8, sent: 4, note: sqliteOpens},
		{name: "ffmpeg -ss", tool: "ffmpeg", script: "ffmpeg -v error -ss 30 -i film.mkv -frames:v 1 -f null - && " +
			"echo played", want: "played", retrieves: 1, fetched: 16},
		{name: "echo >>", tool: "bash", script: "echo line >>data; tail -c 5 data", want: "line", retrieves: 1,
			uploads: 1, fetched: 3, sent: 2, note: againOpen},
		{name: "dd seek=, conv=notrunc", tool: "dd", script: "head -c 4096 /dev/zero | dd of=data bs=4k seek=4000 " +
			"conv=notrunc status=none; stat -c %s data", want: fmt.Sprint(largeFileBytes + 5),
			retrieves: 1, uploads: 1, fetched: 2, sent: 2},
		{name: "truncate -s", tool: "truncate", script: "truncate -s 20M data; stat -c %s data",
			want: fmt.Sprint(20 * mib), retrieves: 1, uploads: 1, fetched: 2, sent: 2},
		{name: "split", tool: "split",
			script: "split -b 8M other piece.; cat piece.* | cmp - $SRC/other && rm piece.* && echo same", want: "same",
			retrieves: 1, uploads: 4, fetched: 132, sent: 132, note: "reads all, and writes four files"},
		{name: "rsync --inplace, one block changed", tool: "rsync",
			script: "cp $SRC/other $OUT/changed; printf svcfs | dd of=$OUT/changed bs=1 seek=9000000 conv=notrunc " +
				"status=none; rsync --inplace --no-whole-file --checksum $OUT/changed other; cmp other $OUT/changed " +
				"&& echo same",
			want: "same", retrieves: 1, uploads: 1, fetched: 132, sent: 3,
			note: "reads all to compare; rsync opens the file twice, cmp once"},
		{name: "cp, reading all", tool: "cp", script: "cp other $OUT/copy; cmp other $OUT/copy && echo same",
			want: "same", retrieves: 1, fetched: 132},
	}
}

// row is the program's line of the table.
func (p largeProgram) row() string {
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %s |", p.name, p.retrieves, p.uploads, p.fetched, p.sent, p.note)
}

// R1, R4, W1: programs that use a part of a large file fetch and send that part. The table of
// fs/SEMANTICS.md has the same rows.
func TestProgramsOnLargeFiles(t *testing.T) {
	proctest.Need(t, "sqlite3", "ffmpeg", "zip")
	w, alice, _ := team(t)
	src, out := w.mkdir("src"), w.mkdir("out")
	shell(t, src, fmt.Sprintf(largeFiles, largeFileBytes))
	alice.must("put", "team", src)
	way := w.line(line.Shape{})
	w.url = "http://" + way.Addr()
	var rows []string
	for _, p := range largeProgramsTable() {
		rows = append(rows, p.row())
		t.Run(p.name, func(t *testing.T) {
			proctest.Need(t, p.tool)
			for try := 1; !p.run(t, alice, way, src, out, try == tries || p.uploads > 0); try++ {
			}
		})
	}
	_, table, found := strings.Cut(string(read(t, filepath.FromSlash("../fs/SEMANTICS.md"))),
		"| Program on a large file | Retrievals | Uploads | Fetches | Sends | |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	listed := strings.Split(strings.TrimSpace(table), "\n")
	if !found || !slices.Equal(listed[1:], rows) {
		t.Errorf("the table has\n%s\nbut the tests have\n%s", table, strings.Join(rows, "\n"))
	}
}

// tries is how often a program that only reads may run until it fetches no more than its row says: what a mount fetches
// ahead is on its way when the program ends, and more of it arrives where the machine is busy.
const tries = 3

// run reports whether the program moved no more than its row says. Unless it is the last try, that is no error.
func (p largeProgram) run(t *testing.T, who *person, way *line.Line, src, out string, last bool) bool {
	t.Helper()
	m := who.mount("m")
	defer m.unmount()
	_, err := os.ReadDir(m.path("team/src"))
	ok(t, err)
	before := way.Moved()
	got := strings.TrimRight(inFolder(t, m.path("team/src"), p.script, "SRC="+src, "OUT="+out), "\n")
	proctest.Eventually(t, "nothing is pending", func() bool { return m.control("pending") == "" })
	moved := way.Moved()
	fetched, sent := moved.Down-before.Down, moved.Up-before.Up
	if got != p.want {
		t.Errorf("shows %q, want %q", got, p.want)
	}
	if retrieves, uploads := m.charges(); retrieves != p.retrieves || uploads != p.uploads {
		t.Errorf("%d retrievals and %d uploads, want %d and %d", retrieves, uploads, p.retrieves, p.uploads)
	}
	const sealed = int64(format.BlockBytes + format.Overhead)
	t.Logf("fetched %.1f blocks, sent %.1f", float64(fetched)/float64(sealed), float64(sent)/float64(sealed))
	if fetched <= p.fetched*sealed && sent <= max(p.sent*sealed, 64*kib) {
		return true
	}
	if last {
		t.Errorf("fetched %d KiB and sent %d KiB, more than %d and %d blocks", fetched/kib, sent/kib, p.fetched, p.sent)
	}
	return last
}

// R9, W18: what svcfs cost tells of a large file is what reading all of it costs then.
func TestCostOfLargeFiles(t *testing.T) {
	w, alice, _ := team(t)
	a := alice.mount("a")
	path := a.path("team/large")
	content := make([]byte, 9*mib)
	copy(content, "begins")
	var held *os.File
	for _, tc := range []struct {
		name   string
		before func() error
		want   int // charged
	}{
		{"just written", func() error { return os.WriteFile(path, content, 0o600) }, 0},
		{"mounted anew", func() error { a.unmount(); a = alice.mount("a"); _, err := os.Stat(path); return err }, 1},
		{"read in part", func() error {
			a.unmount()
			a = alice.mount("a")
			shell(t, w.dir, "head -c 100000 a/team/large >part")
			return nil
		}, 0},
		{"held open", func() (err error) {
			a.unmount()
			a = alice.mount("a")
			held, err = os.Open(path)
			return err
		}, 0},
		{"read whole", func() error { return held.Close() }, 0},
		{"a line more, by a mount that had none of it", func() error {
			a.unmount()
			a = alice.mount("a")
			shell(t, w.dir, "echo line >>a/team/large")
			proctest.Eventually(t, "it is recorded", func() bool { return a.control("pending") == "" })
			return nil
		}, 0},
	} {
		ok(t, tc.before())
		before, _ := a.charges()
		var told struct{ Free, Charged int }
		ok(t, json.Unmarshal([]byte(alice.must("cost", "--json", path)), &told))
		_ = read(t, path)
		if after, _ := a.charges(); after-before != tc.want || told.Charged != tc.want || told.Free != 1-tc.want {
			t.Errorf("%s: cost tells %d charged and %d free, reading was charged %d times, want %d", tc.name,
				told.Charged, told.Free, after-before, tc.want)
		}
	}
}
