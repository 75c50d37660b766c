package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

// lasting is how long each figure of BENCH=service is measured, and by how many
// clients at once. Beside another svcd it is the time of each of several turns.
const (
	lasting = 4 * time.Second
	senders = 8
	turns   = 3
)

// figure is one operation a second.
type figure struct {
	name  string
	rate  float64
	cpu   float64 // of svcd, milliseconds each; 0 = not measured
	rows  float64 // by which the database grew, bytes each
	wrote float64 // to the disk or the write-ahead log, bytes each
	other float64 // CPU that another svcd needs for the same, milliseconds
	ratio float64 // to the rate of that svcd
}

// throughput measures what svcd does a second on each pair of stores, what the stores do without it, and what
// several processes do together.
func (w *world) throughput(out string) error {
	w.reps = 1
	begun, load := time.Now(), loadAverage()
	r := &serviceReport{w: w, helper: &tester{}, ratios: map[string]float64{},
		picture: &canvas{width: panelWidth + 2*panelGap, height: panelGap}}
	defer r.helper.end()
	tables := ""
	for _, s := range r.sections() {
		if !w.wants(s.name) || !isChosen(w.rows, s.name) {
			continue
		}
		text, err := s.measure(s.name)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		tables += "\n## " + s.name + "\n\n" + text
	}
	text := "# What the service does a second\n\nMade by `make bench BENCH=service`; do not edit.\n\n" +
		environmentOf(w, begun, load) + "\n## Targets\n\n" + r.targetText() + tables
	if w.rows != "" {
		_, err := os.Stdout.WriteString(text)
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(out, "service.md"), []byte(text+"\n![chart](service.svg)\n"), 0o644),
		os.WriteFile(filepath.Join(out, "service.svg"), []byte(r.picture.String()), 0o644))
}

// rates is the table of one pair of stores.
func (w *world) rates(list []figure) string {
	head, line := "| What | a second | CPU of svcd, ms each | database grows, bytes each | written, bytes each |",
		"|---|---:|---:|---:|---:|"
	if w.otherSvcd != "" {
		head, line = head+" CPU of the other svcd | rate, of the other's |", line+"---:|---:|"
	}
	text := head + "\n" + line + "\n"
	for _, f := range list {
		text += fmt.Sprintf("| %s | %s | %s | %s | %s |", f.name, short(f.rate), orDash(f.cpu), orDash(f.rows),
			orDash(f.wrote))
		if w.otherSvcd != "" {
			text += fmt.Sprintf(" %s | %s |", orDash(f.other), orDash(f.ratio))
		}
		text += "\n"
	}
	return text
}

func orDash(f float64) string {
	if f == 0 {
		return "–"
	}
	return short(f)
}

func drawFigures(c *canvas, y float64, title string, floors, served []figure) float64 {
	c.text(panelGap, y+14, 13, "start", ink, title+", a second")
	all, most, at := append(append([]figure{}, floors...), served...), 0.0, y+22
	for _, f := range all {
		most = max(most, f.rate)
	}
	for i, f := range all {
		fill := ours
		if i < len(floors) {
			fill = floor
		}
		c.text(panelGap+labelWidth+24, at+barHeight-4, 11, "end", ink, f.name)
		c.rect(panelGap+labelWidth+30, at+2, max(1, (panelWidth-labelWidth-30-figureWidth)*f.rate/most), barHeight-4,
			fill)
		c.text(panelGap+panelWidth, at+barHeight-4, 11, "end", ink, short(f.rate))
		at += barHeight
	}
	return at - y
}

func sizeText(size int64) string {
	if size >= 1<<20 {
		return fmt.Sprintf("%d MiB", size>>20)
	}
	return fmt.Sprintf("%d KiB", size>>10)
}

// commitsOf counts transactions of one inserted row.
func commitsOf(db *sql.DB, placeholder string) (float64, error) {
	if _, err := db.Exec("CREATE TABLE IF NOT EXISTS floor (n BIGINT, t TEXT)"); err != nil {
		return 0, err
	}
	statement := "INSERT INTO floor (n, t) VALUES (1, " + placeholder + ")"
	return repeat(func(ctx context.Context, _ int) error {
		_, err := db.ExecContext(ctx, statement, "a row of the ledger is longer than this one")
		return err
	})
}

// operation is what a sender repeats.
type operation = func(ctx context.Context, sender int) error

// repeat calls do from all senders for a while and returns how often a second.
func repeat(do operation) (float64, error) {
	var done atomic.Int64
	begin := time.Now()
	err := inParallel(senders, senders, func(i int) error {
		for time.Since(begin) < lasting {
			if err := do(context.Background(), i); err != nil {
				return err
			}
			done.Add(1)
		}
		return nil
	})
	return rate(int(done.Load()), time.Since(begin)), err
}

// serveFrom measures svcd on the stores, end to end: the client seals, opens and
// verifies. Another svcd takes turns with it, over stores of its own.
func (w *world) serveFrom(b backing) (list []figure, err error) {
	programs := []string{filepath.Join(w.bin, "svcd")}
	if w.otherSvcd != "" {
		programs = append(programs, w.otherSvcd)
	}
	var services []*service
	for i, program := range programs {
		stores, err := b.stores()
		if err != nil {
			return nil, err
		}
		s, err := w.startService(program, fmt.Sprintf("svcd-%s-%d", fileName(strings.ToLower(b.name)), i), b.env,
			stores...)
		if err != nil {
			return nil, err
		}
		s.stores = stores
		services = append(services, s)
	}
	if len(programs) == 1 { // another svcd may not take them
		for _, together := range []int{1, 64} {
			sealed, err := b.takeTurns(fmt.Sprintf("svcd: sealed uploads of 4 KiB, %d at a time", together), services,
				func(s *service) (operation, error) {
					return s.sealedUploader(together)
				})
			if err != nil {
				return nil, err
			}
			sealed.rate, sealed.cpu, sealed.rows, sealed.wrote = sealed.rate*float64(together),
				sealed.cpu/float64(together), sealed.rows/float64(together), sealed.wrote/float64(together)
			list = append(list, sealed)
		}
	}
	for _, size := range []int64{smallBytes, 16 << 20} {
		uploads, err := b.takeTurns("svcd: uploads of "+sizeText(size), services,
			func(s *service) (operation, error) {
				return s.uploader(size)
			})
		if err != nil {
			return nil, err
		}
		retrieves, err := b.takeTurns("svcd: retrieves of "+sizeText(size), services,
			func(s *service) (operation, error) {
				return s.retriever(size)
			})
		if err != nil {
			return nil, err
		}
		list = append(list, uploads, retrieves)
	}
	for _, s := range services {
		w.end(s.process) // what follows is not measured beside them
	}
	return list, nil
}

// takeTurns repeats what prepare returns against each service; alone, a service
// has one turn.
func (b backing) takeTurns(name string, services []*service,
	prepare func(*service) (operation, error)) (f figure, err error) {
	rounds := 1
	if len(services) > 1 {
		rounds = turns
	}
	rates, cpus := make([][]float64, len(services)), make([][]float64, len(services))
	for range rounds {
		for i, s := range services {
			one, err := b.measure(s, prepare)
			if err != nil {
				return f, err
			}
			rates[i], cpus[i] = append(rates[i], one.rate), append(cpus[i], one.cpu)
			if i == 0 {
				f = one
			}
		}
	}
	f.name, f.rate, f.cpu = name, median(rates[0]), median(cpus[0])
	if len(services) > 1 {
		pairs := make([]float64, rounds)
		for i := range pairs {
			pairs[i] = rates[0][i] / rates[1][i]
		}
		f.other, f.ratio = median(cpus[1]), median(pairs)
	}
	return f, nil
}

// measure repeats what prepare returns for a while.
func (b backing) measure(s *service, prepare func(*service) (operation, error)) (f figure,
	err error) {
	do, err := prepare(s)
	if err != nil {
		return f, err
	}
	size, written, err := b.used(s)
	if err != nil {
		return f, err
	}
	pid, begin := s.process.cmd.Process.Pid, time.Now()
	cpu := cpuOf(pid)
	if f.rate, err = repeat(do); err != nil {
		return f, err
	}
	n := f.rate * time.Since(begin).Seconds()
	f.cpu = milliseconds(cpuOf(pid)-cpu) / n
	size2, written2, err := b.used(s)
	f.rows, f.wrote = max(0, float64(size2-size)/n), float64(written2-written)/n
	return f, err
}

// median of at least one figure.
func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	n := len(list)
	if n%2 == 0 {
		return (list[n/2-1] + list[n/2]) / 2
	}
	return list[n/2]
}

func sizedGroup(size int64) sdk.GroupID { return sdk.GroupID(fmt.Sprintf("size-%d", size)) }

// uploader returns what uploads a file of its own at every call.
func (s *service) uploader(size int64) (operation, error) {
	group := sizedGroup(size)
	if known, err := s.client.OwnedGroups(context.Background()); err != nil {
		return nil, err
	} else if !slices.ContainsFunc(known, func(g sdk.Group) bool { return g.ID == group }) {
		if _, err := s.client.Group(group).Register(context.Background()); err != nil {
			return nil, err
		}
	}
	contents := make([][]byte, senders)
	for i := range contents {
		contents[i] = make([]byte, size)
	}
	return func(ctx context.Context, sender int) error {
		id := s.uploads.Add(1)
		copy(contents[sender], fmt.Sprintf("%020d", id))
		_, err := s.client.Group(group).Put(ctx, fmt.Sprintf("file-%d", id), bytes.NewReader(contents[sender]))
		return err
	}, nil
}

// sealedUploader returns what uploads so many files of 4 KiB at every call, each sealed on this
// machine: the service opens the key, and records them in one request with those of others.
func (s *service) sealedUploader(together int) (operation, error) {
	group := s.client.Group(sizedGroup(smallBytes))
	if _, err := s.uploader(smallBytes); err != nil { // makes the group
		return nil, err
	}
	return func(ctx context.Context, _ int) error {
		items := make([]*sdk.Sealed, together)
		for i := range items {
			id := s.uploads.Add(1)
			var err error
			if items[i], err = group.Seal(ctx, fmt.Sprintf("sealed-%d", id),
				fmt.Appendf(nil, "%0*d", smallBytes, id), nil); err != nil {
				return err
			}
		}
		for _, sent := range s.client.SendSealed(ctx, items...) {
			if sent.Err != nil {
				return sent.Err
			}
		}
		return nil
	}, nil
}

// retriever returns what fetches one file after the other.
func (s *service) retriever(size int64) (operation, error) {
	entries, err := s.client.Group(sizedGroup(size)).Entries(context.Background())
	if err != nil {
		return nil, err
	}
	var next atomic.Int64
	return func(ctx context.Context, _ int) error {
		return fetch(ctx, s.client, entries[int(next.Add(1))%len(entries)])
	}, nil
}
