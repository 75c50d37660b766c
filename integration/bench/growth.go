package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/integration/line"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// row is one line of a growth table: what grew, and what it took.
type row struct {
	x       float64
	figures []float64
}

// growing is one table and chart.
type growing struct {
	title, x string
	columns  []string
	rows     []row
	note     string
}

// growth measures how time and memory grow with files, groups and clients.
func (w *world) growth(out string) error {
	w.reps = 1
	begun, load := time.Now(), loadAverage()
	systems, err := w.svcfs()
	if err != nil {
		return err
	}
	// the data set itself is of no interest here
	w.small, w.listed, w.big, w.data = 1, 1, 2*smallBytes, w.data[:2*smallBytes]
	var s *system
	for _, candidate := range systems {
		if candidate.name == svcfsKeep {
			s = candidate
		}
	}
	if s == nil {
		return errors.New("BENCH=growth measures svcfs keep: leave -only out")
	}
	s.root = w.path("mnt", fileName(s.name))
	if err := s.fill(); err != nil {
		return err
	}
	w.systems = systems
	var tables []growing
	for _, measure := range []func(*system) (growing, error){w.growFile, w.growGroup, w.growNames,
		w.growMount, w.growClients, w.growProcesses} {
		g, err := measure(s)
		if err != nil {
			return err
		}
		tables = append(tables, g)
	}
	text := "# How time and memory grow\n\nMade by `make bench BENCH=growth`; do not edit.\n\n" +
		environmentOf(w, begun, load) + "\n![charts](growth.svg)\n"
	picture := &canvas{width: 2*panelWidth + 3*panelGap}
	y := panelGap
	for _, g := range tables {
		text += g.markdown()
		y += g.draw(picture, y) + panelGap
	}
	picture.height = y
	return errors.Join(os.WriteFile(filepath.Join(out, "growth.md"), []byte(text), 0o644),
		os.WriteFile(filepath.Join(out, "growth.svg"), []byte(picture.String()), 0o644))
}

// growFile writes files of growing size, and reads each cold.
func (w *world) growFile(s *system) (growing, error) {
	g := growing{title: "File size", x: "KiB",
		columns: []string{"write with close, ms", "cold read, ms", "peak memory, MiB"},
		note:    "Memory is that of the mount while it reads the file, without the kernel's pages."}
	block := make([]byte, blockBytes)
	for size := int64(4 << 10); size <= 1<<30; size *= 8 {
		progress("file of %d KiB", size>>10)
		if err := s.up(false); err != nil {
			return g, err
		}
		path := s.path(setWrite, fmt.Sprintf("grow-%d", size))
		copy(block, fmt.Sprint(size, time.Now().UnixNano()))
		begin := time.Now()
		if err := writeBlocks(path, block, size); err != nil {
			return g, err
		}
		wrote := time.Since(begin)
		if err := s.up(true); err != nil {
			return g, err
		}
		_, _ = os.ReadDir(s.path(setWrite))
		m := s.meter()
		begin = time.Now()
		if _, err := readFile(path, block); err != nil {
			return g, err
		}
		read := time.Since(begin)
		g.rows = append(g.rows, row{float64(size >> 10),
			[]float64{milliseconds(wrote), milliseconds(read), mib(m.stop().peak)}})
	}
	return g, s.down()
}

func writeBlocks(path string, block []byte, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for left := size; left > 0; left -= int64(len(block)) {
		if _, err := f.Write(block[:min(left, int64(len(block)))]); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// uploaded is up to which size the files of a growing group are uploaded; more
// are put into the records at once, by the code that svcd uses.
const uploaded = 1000

// growGroup lists one group of growing size.
func (w *world) growGroup(s *system) (growing, error) {
	const group = "grow"
	g := growing{title: "Files in a group", x: "files",
		columns: []string{"ls -l cold, ms", "ls -l warm, ms", "first look-up, ms", "memory, MiB"},
		note: fmt.Sprintf("The first look-up is stat of one name in a mount that has seen nothing. More than %d "+
			"files are records without content. A look-up that the mount gave up after its five seconds is repeated "+
			"and counted whole.", uploaded)}
	ctx := context.Background()
	if _, err := w.svc.client.Group(group).Register(ctx); err != nil {
		return g, err
	}
	have := 0
	for size := 10; size <= 100_000; size *= 10 {
		progress("group of %d files", size)
		begin := time.Now()
		var err error
		if size <= uploaded {
			err = inParallel(16, size-have, func(i int) error {
				name := entryName(have + i)
				_, err := w.svc.client.Group(group).Put(ctx, name, bytes.NewReader([]byte(name)))
				return err
			})
			g.note += fmt.Sprintf(" The last %d uploads of the %d took %v.", size-have, size,
				time.Since(begin).Round(time.Millisecond))
		} else {
			err = w.svc.addRecords(ctx, group, have, size, entryName)
		}
		if err != nil {
			return g, err
		}
		have = size
		figures, err := w.lookAtGroup(s, group)
		if err != nil {
			return g, err
		}
		g.rows = append(g.rows, row{float64(size), figures})
	}
	return g, s.down()
}

func entryName(i int) string { return fmt.Sprintf("entry-%06d.txt", i) }

// addRecords puts files from one number up to another into a group of the SQLite
// database: ledger records and rows as of an upload, without key and content, and with an opening of their size that
// does not open.
func (s *service) addRecords(ctx context.Context, group string, from, to int, name func(int) string) error {
	const atOnce = 2000 // svcd writes between
	db, err := store.Open(ctx, s.data, "")
	if err != nil {
		return err
	}
	l := ledger.New(ledger.DefaultFees(), ledger.Bounds{}, time.Now)
	for ; from < to && err == nil; from += atOnce {
		err = db.Write(ctx, ledger.In(group), func(tx *store.Tx) error {
			for i := from; i < min(to, from+atOnce); i++ {
				if err := s.addRecord(ctx, tx, l, group, i, name(i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return errors.Join(err, db.Close())
}

func (s *service) addRecord(ctx context.Context, tx *store.Tx, l *ledger.Ledger, group string, i int,
	name string) error {
	sum := sha256.Sum256([]byte(name))
	ref, opening := fmt.Sprintf("bafy.record/%s/%d", group, i), chain.Opening{Size: int64(len(name)), Hash: sum}
	r, err := l.Append(ctx, tx, chain.Record{Kind: chain.KindRecord, Account: s.account, Group: group, Ref: ref,
		FileHash: opening.Commitment(), Detail: name,
		Tags: []chain.Tag{{Name: chain.TagType, Value: "text/plain"}}})
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO files (ref, group_id, seq, changed_seq, named_seq, tx_id, uploader, file_hash, time_ns, filename,
		content_type, format, blob_id, blob_size, blob_sum, key_version, key_id)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'text/plain', 'null', ?, ?, ?, 1, 1)`,
		ref, group, r.Seq, r.Seq, r.Seq, r.Tx, s.account, r.FileHash, r.TimeNS, name, ref, len(name)+format.Overhead,
		sum[:])
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO openings (seq, sealed) VALUES (?, ?)", r.Seq,
		bytes.Repeat([]byte{1}, chain.OpeningBytes+format.Overhead))
	return err
}

func (w *world) lookAtGroup(s *system, group string) ([]float64, error) {
	if err := s.up(true); err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := insist(func() error { _, err := os.Stat(s.path(group, entryName(3))); return err }); err != nil {
		return nil, err
	}
	first := milliseconds(time.Since(begin))
	if err := s.up(true); err != nil {
		return nil, err
	}
	begin = time.Now()
	if err := insist(func() error { _, _, err := listFolder(s.path(group)); return err }); err != nil {
		return nil, err
	}
	cold := milliseconds(time.Since(begin))
	warmed, _, err := listFolder(s.path(group))
	if err != nil {
		return nil, err
	}
	return []float64{cold, warmed, first, mib(statusBytes(s.client.cmd.Process.Pid, "VmRSS:"))}, nil
}

// The group of [world.growNames] and [world.growMount].
const (
	namesGroup     = "names"
	namesPerFolder = 100
	mostNames      = 1_000_000
)

func namesFolder(i int) string { return fmt.Sprintf("folder-%05d", i/namesPerFolder) }

// growMount looks at the group that growNames made, from mounts that have seen nothing.
func (w *world) growMount(s *system) (growing, error) {
	g := growing{title: "A mount of a group of many files", x: "files",
		columns: []string{"first stat, ms", "its requests", "its KiB", "then ls -l of a folder of 100, ms",
			"its requests", "its KiB", "memory, MiB", "find of all, ms", "its requests", "its MiB",
			"peak memory, MiB"},
		note: "A mount that has seen nothing begins with the stat of one file. Requests are turns on the line, KiB " +
			"all that it carried. find is that of findutils, over all of the group: where memory is short " +
			"(--list-memory, 256 MiB), the mount forgets what it looked at."}
	if err := s.reach(&line.Shape{}); err != nil {
		return g, err
	}
	if err := s.up(true); err != nil {
		return g, err
	}
	var figures []float64
	carried := func(unit float64, look func() error) error {
		before, begin := s.moved(), time.Now()
		if err := look(); err != nil {
			return err
		}
		took, after := milliseconds(time.Since(begin)), s.moved()
		figures = append(figures, took, float64(after.Turns-after.Watches-before.Turns+before.Watches),
			float64(after.Up+after.Down-before.Up-before.Down)/unit)
		return nil
	}
	err := carried(1<<10, func() error {
		_, err := os.Stat(s.path(namesGroup, namesFolder(mostNames/3), entryName(mostNames/3)))
		return err
	})
	if err != nil {
		return g, err
	}
	err = carried(1<<10, func() error {
		_, lines, err := listFolder(s.path(namesGroup, namesFolder(mostNames/4)))
		if err == nil && lines != namesPerFolder+1 {
			err = fmt.Errorf("ls shows %d lines", lines)
		}
		return err
	})
	if err != nil {
		return g, err
	}
	figures = append(figures, mib(statusBytes(s.client.cmd.Process.Pid, "VmRSS:")))
	m := s.meter()
	err = carried(1<<20, func() error {
		progress("find over %d files", mostNames)
		out, err := exec.Command("find", s.path(namesGroup), "-type", "f").Output()
		if err == nil && countLines(out) != mostNames {
			err = fmt.Errorf("find shows %d files", countLines(out))
		}
		return err
	})
	if err != nil {
		return g, err
	}
	figures = append(figures, mib(m.stop().peak))
	g.rows = append(g.rows, row{mostNames, figures})
	return g, errors.Join(s.down(), s.reach(nil))
}

// growNames asks for one name and one folder in a group of growing size, each proven.
func (w *world) growNames(*system) (growing, error) {
	const group, perFolder = namesGroup, namesPerFolder
	g := growing{title: "Names of a group, each question proven", x: "files",
		columns: []string{"tree built, ms", "one file, ms", "its requests", "its KiB", "folder of 100, ms",
			"its requests", "its KiB", "memory of svcd, MiB", "ledger --verify, ms", "its MiB", "svcd audit, ms",
			"its MiB"},
		note: fmt.Sprintf("Each client has signed in, and has seen nothing else. One file is sdk's `Stat`, which also "+
			"proves the record in the log; a folder is `Children`. KiB is what both directions carry beside the heads "+
			"of HTTP. The tree of names is built once, in the background, and then follows; until then a client is "+
			"told to ask again. svcfs ledger --verify checks the group, svcd audit the whole ledger with the groups "+
			"of the tables above: MiB is the most that the program had. The files are records without content, in "+
			"folders of %d.", perFolder)}
	folder, ctx := namesFolder, context.Background()
	if _, err := w.svc.client.Group(group).Register(ctx); err != nil {
		return g, err
	}
	have := 0
	for size := 10_000; size <= mostNames; size *= 10 {
		progress("names of %d files", size)
		err := w.svc.addRecords(ctx, group, have, size, func(i int) string { return folder(i) + "/" + entryName(i) })
		if err != nil {
			return g, err
		}
		have = size
		begin := time.Now()
		for { // each question has the tree built, or waits for it
			_, err := w.svc.client.Group(group).Child(ctx, folder(size/2))
			if err == nil {
				break
			}
			if time.Since(begin) > time.Hour || sdk.KindOf(err) != sdk.ErrUnavailable {
				return g, err
			}
			time.Sleep(100 * time.Millisecond)
		}
		figures := []float64{milliseconds(time.Since(begin))}
		for _, ask := range []func(sdk.Group) error{
			func(g sdk.Group) error {
				_, err := g.Stat(ctx, folder(size/3)+"/"+entryName(size/3))
				return err
			},
			func(g sdk.Group) error {
				_, err := g.Children(ctx, folder(size/4))
				return err
			},
		} {
			taken, err := w.askOnce(ctx, group, ask)
			if err != nil {
				return g, err
			}
			figures = append(figures, taken...)
		}
		figures = append(figures, mib(statusBytes(w.svc.process.cmd.Process.Pid, "VmRSS:")))
		for _, check := range [][]string{{"svcfs", "ledger", group, "--verify"},
			{"svcd", "audit", "--data", w.svc.data}} {
			taken, most, err := w.svc.command(check[0], check[1:]...)
			if err != nil {
				return g, err
			}
			figures = append(figures, milliseconds(taken), mib(most))
		}
		g.rows = append(g.rows, row{float64(size), figures})
	}
	return g, nil
}

// command runs one of our programs as the account, and returns how long it took and the most memory that it had, in
// bytes.
func (s *service) command(program string, args ...string) (taken time.Duration, most int64, err error) {
	cmd := exec.Command(filepath.Join(s.w.bin, program), args...)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "HOME="+s.w.path("home"), "SVC_URL="+s.url, "SVC_ACCOUNT_ID="+s.account,
		"SVC_API_KEY_FILE="+s.keyFile)
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for { // its largest use by getrusage is that of this process, from before it ran the program
		select {
		case err = <-ended:
			return time.Since(begin), most, err
		case <-time.After(20 * time.Millisecond):
			most = max(most, statusBytes(cmd.Process.Pid, "VmHWM:"))
		}
	}
}

// askOnce asks with a client that has signed in, and returns milliseconds, requests and KiB.
func (w *world) askOnce(ctx context.Context, group sdk.GroupID, ask func(sdk.Group) error) ([]float64, error) {
	sent := &counted{RoundTripper: &http.Transport{}}
	c, err := sdk.New(sdk.AccountID(w.svc.account), sdk.Config{URL: w.svc.url, APIKey: sdk.NewSecret(w.svc.key),
		Transport: sent})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := signIn(ctx, []*sdk.Client{c}); err != nil {
		return nil, err
	}
	sent.requests.Store(0)
	sent.bytes.Store(0)
	begin := time.Now()
	if err := ask(c.Group(group)); err != nil {
		return nil, err
	}
	return []float64{milliseconds(time.Since(begin)), float64(sent.requests.Load()),
		float64(sent.bytes.Load()) / 1024}, nil
}

// counted counts requests, and the bytes of bodies.
type counted struct {
	http.RoundTripper
	requests, bytes atomic.Int64
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	c.bytes.Add(max(0, r.ContentLength))
	resp, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = countedBody{resp.Body, &c.bytes}
	}
	return resp, err
}

type countedBody struct {
	io.ReadCloser
	bytes *atomic.Int64
}

func (b countedBody) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	b.bytes.Add(int64(n))
	return n, err
}

// insist repeats what the mount gave up because the ledger's rows took longer
// than a look-up may.
func insist(look func() error) (err error) {
	for range 10 {
		if err = look(); !errors.Is(err, syscall.ETIMEDOUT) {
			return err
		}
	}
	return err
}

// growClients lets a growing number of accounts fetch the same files at once.
func (w *world) growClients(*system) (growing, error) {
	const group, files, each = "crowd", 64, 2000
	g := growing{title: "Clients at once", x: "clients",
		columns: []string{"retrieves/s", "milliseconds each", "memory of svcd, MiB"},
		note: "Every client is an account with a connection of its own and fetches, decrypts and verifies files of 4 " +
			"KiB, one after the other; every one is charged."}
	ctx := context.Background()
	var list []file
	for i := range files {
		list = append(list, file{fmt.Sprintf("file-%d", i),
			[]byte(strings.Repeat(fmt.Sprintf("%07d\n", i), smallBytes/8))})
	}
	if err := w.svc.upload(group, list); err != nil {
		return g, err
	}
	entries, err := w.svc.client.Group(group).Entries(ctx)
	if err != nil {
		return g, err
	}
	var clients []*sdk.Client
	for _, n := range []int{1, 2, 5, 10, 20, 50, 100, 200} {
		progress("%d clients", n)
		for len(clients) < n {
			account, key, err := w.svc.newAccount(fmt.Sprintf("client%d", len(clients)), nil, nil)
			if err != nil {
				return g, err
			}
			if _, err := w.svc.client.Group(group).Add(ctx, sdk.AccountID(account)); err != nil {
				return g, err
			}
			c, err := w.svc.clientOf(account, key)
			if err != nil {
				return g, err
			}
			clients = append(clients, c)
		}
		if err := signIn(ctx, clients); err != nil {
			return g, err
		}
		begin := time.Now()
		err := inParallel(n, n, func(i int) error {
			for k := range max(each/n, 5) {
				if err := fetch(ctx, clients[i], entries[(i+k)%len(entries)]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return g, err
		}
		took, done := time.Since(begin), n*max(each/n, 5)
		g.rows = append(
			g.rows, row{float64(n), []float64{rate(done, took), milliseconds(took) * float64(n) / float64(done),
				mib(statusBytes(w.svc.process.cmd.Process.Pid, "VmRSS:"))}})
	}
	return g, nil
}

// growProcesses lets clients work with a growing number of svcd processes over
// one PostgreSQL and one bucket.
func (w *world) growProcesses(*system) (growing, error) {
	const group, files, clients = "shared", 64, 24
	g := growing{title: "Service processes", x: "processes",
		columns: []string{"uploads/s", "retrieves/s", "CPU per upload, ms", "CPU per retrieve, ms",
			"memory of all, MiB"},
		note: fmt.Sprintf("%d clients at once with files of 4 KiB, spread over the processes; PostgreSQL and the S3 "+
			"server run on the same machine. "+
			"CPU is that of all processes of svcd.", clients)}
	helper := &tester{}
	defer helper.end()
	b, err := w.onPostgres(helper)
	if err != nil {
		g.note = fmt.Sprintf("Not measured: %v.", err)
		return g, nil
	}
	stores, err := b.stores()
	if err != nil {
		return g, err
	}
	var services []*service
	defer func() {
		for _, s := range services {
			w.end(s.process)
		}
	}()
	for n := 1; n <= 3; n++ {
		progress("%d processes", n)
		s, err := w.joinService(services, b.env, stores)
		if err != nil {
			return g, err
		}
		if services = append(services, s); n == 1 {
			if _, err := s.client.Group(group).Register(context.Background()); err != nil {
				return g, err
			}
		}
		figures, err := crowd(services, group, clients, files)
		if err != nil {
			return g, err
		}
		g.rows = append(g.rows, row{float64(n), figures})
	}
	return g, nil
}

// joinService starts one more process over the stores of those before it.
func (w *world) joinService(others []*service, env, stores []string) (*service, error) {
	name := fmt.Sprintf("process%d", len(others)+1)
	if len(others) == 0 {
		return w.newService(name, env, stores...)
	}
	if err := copyMaster(others[0].data, w.path(name)); err != nil {
		return nil, err
	}
	s, err := w.serveAt(filepath.Join(w.bin, "svcd"), name, env, stores...)
	if err != nil {
		return nil, err
	}
	s.account, s.key = others[0].account, others[0].key
	s.client, err = s.clientOf(s.account, s.key)
	return s, err
}

// copyMaster gives a new data directory the master key of another one.
func copyMaster(from, to string) error {
	key, err := os.ReadFile(filepath.Join(from, "master.key"))
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(to, 0o700), os.WriteFile(filepath.Join(to, "master.key"), key, 0o600))
}

// crowd measures uploads and retrieves by clients that are spread over processes.
func crowd(services []*service, group sdk.GroupID, clients, files int) (figures []float64, err error) {
	ctx := context.Background()
	data := []byte(strings.Repeat("svcfs..\n", smallBytes/8))
	var n atomic.Int64
	upload := func(i int) error {
		_, err := services[i%len(services)].client.Group(group).Put(ctx, fmt.Sprintf("%d-%d", len(services), n.Add(1)),
			bytes.NewReader(data))
		return err
	}
	if err := inParallel(clients, files, upload); err != nil { // also signs in
		return nil, err
	}
	entries, err := services[0].client.Group(group).Entries(ctx)
	if err != nil {
		return nil, err
	}
	retrieve := func(i int) error {
		return fetch(ctx, services[i%len(services)].client, entries[int(n.Add(1))%len(entries)])
	}
	var rates, cpus []float64
	memory := 0.0
	for _, do := range []func(int) error{upload, retrieve} {
		var done atomic.Int64
		used, begin := cpuOfAll(services), time.Now()
		err := inParallel(clients, clients, func(i int) error {
			for time.Since(begin) < lasting {
				if err := do(i); err != nil {
					return err
				}
				done.Add(1)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		rates = append(rates, rate(int(done.Load()), time.Since(begin)))
		cpus = append(cpus, milliseconds(cpuOfAll(services)-used)/float64(done.Load()))
	}
	for _, s := range services {
		memory += mib(statusBytes(s.process.cmd.Process.Pid, "VmRSS:"))
	}
	return append(append(rates, cpus...), memory), nil
}

func cpuOfAll(services []*service) (sum time.Duration) {
	for _, s := range services {
		sum += cpuOf(s.process.cmd.Process.Pid)
	}
	return sum
}

func signIn(ctx context.Context, clients []*sdk.Client) error {
	return inParallel(8, len(clients), func(i int) error {
		_, err := clients[i].AuthStatus(ctx)
		return err
	})
}

func fetch(ctx context.Context, c *sdk.Client, e sdk.Entry) error {
	f, err := c.Group(e.Group).OpenEntry(ctx, e)
	if err != nil {
		return err
	}
	return f.Close()
}

func (g growing) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n| %s |", g.title, g.x)
	for _, c := range g.columns {
		fmt.Fprintf(&b, " %s |", c)
	}
	b.WriteString("\n|---:|" + strings.Repeat("---:|", len(g.columns)) + "\n")
	for _, r := range g.rows {
		fmt.Fprintf(&b, "| %.0f |", r.x)
		for _, f := range r.figures {
			fmt.Fprintf(&b, " %s |", short(f))
		}
		b.WriteString("\n")
	}
	return b.String() + "\n" + g.note + "\n"
}

// draw puts times to the left and memory to the right.
func (g growing) draw(c *canvas, y float64) float64 {
	var times, memory []series
	for i, name := range g.columns {
		line := series{name: name}
		for _, r := range g.rows {
			line.points = append(line.points, [2]float64{r.x, max(r.figures[i], 1e-3)})
		}
		switch {
		case strings.Contains(name, "memory"):
			memory = append(memory, line)
		case !strings.HasPrefix(name, "its "): // of another unit
			times = append(times, line)
		}
	}
	return max(c.chart(panelGap, y, g.title, g.x, times),
		c.chart(2*panelGap+panelWidth, y, g.title+": memory", g.x, memory))
}
