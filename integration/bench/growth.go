package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk"
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
	w.small, w.listed, w.big, w.data = 1, 1, 2*smallBytes, w.data[:2*smallBytes] // the data set itself is of no interest here
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
	for _, measure := range []func(*system) (growing, error){w.growFile, w.growGroup, w.growClients} {
		g, err := measure(s)
		if err != nil {
			return err
		}
		tables = append(tables, g)
	}
	text := "# How time and memory grow\n\nMade by `make bench BENCH=growth`; do not edit.\n\n" + environmentOf(w, begun, load) + "\n![charts](growth.svg)\n"
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
	g := growing{title: "File size", x: "KiB", columns: []string{"write with close, ms", "cold read, ms", "peak memory, MiB"},
		note: "Memory is that of the mount while it reads the file, without the kernel's pages."}
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
		g.rows = append(g.rows, row{float64(size >> 10), []float64{milliseconds(wrote), milliseconds(read), mib(m.stop().peak)}})
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

// growGroup lists one group of growing size.
func (w *world) growGroup(s *system) (growing, error) {
	const group = "grow"
	g := growing{title: "Files in a group", x: "files", columns: []string{"ls -l cold, ms", "ls -l warm, ms", "first look-up, ms", "memory, MiB"},
		note: "The first look-up is stat of one name in a mount that has seen nothing."}
	if _, err := w.svc.client.RegisterGroup(context.Background(), group); err != nil {
		return g, err
	}
	have := 0
	for size := 10; size <= 100_000; size *= 10 {
		progress("group of %d files", size)
		begin := time.Now()
		err := inParallel(16, size-have, func(i int) error {
			if time.Since(begin) > w.fillPatience {
				return nil
			}
			name := fmt.Sprintf("entry-%06d.txt", have+i)
			_, err := w.svc.client.UploadBytes(context.Background(), group, name, []byte(name))
			return err
		})
		if err != nil {
			return g, err
		}
		if time.Since(begin) > w.fillPatience {
			g.note += fmt.Sprintf(" %d files are left out: filling took longer than %v.", size, w.fillPatience)
			break
		}
		g.note += fmt.Sprintf(" The last %d uploads of the %d took %v.", size-have, size, time.Since(begin).Round(time.Millisecond))
		have = size
		figures, err := w.lookAtGroup(s, group)
		if err != nil {
			return g, err
		}
		g.rows = append(g.rows, row{float64(size), figures})
	}
	return g, s.down()
}

func (w *world) lookAtGroup(s *system, group string) ([]float64, error) {
	if err := s.up(true); err != nil {
		return nil, err
	}
	begin := time.Now()
	if _, err := os.Stat(s.path(group, "entry-000003.txt")); err != nil {
		return nil, err
	}
	first := milliseconds(time.Since(begin))
	if err := s.up(true); err != nil {
		return nil, err
	}
	cold, _, err := listFolder(s.path(group))
	if err != nil {
		return nil, err
	}
	warmed, _, err := listFolder(s.path(group))
	if err != nil {
		return nil, err
	}
	return []float64{cold, warmed, first, mib(statusBytes(s.client.cmd.Process.Pid, "VmRSS:"))}, nil
}

// growClients lets a growing number of accounts fetch the same files at once.
func (w *world) growClients(*system) (growing, error) {
	const group, files, each = "crowd", 64, 2000
	g := growing{title: "Clients at once", x: "clients", columns: []string{"retrieves/s", "milliseconds each", "memory of svcd, MiB"},
		note: "Every client is an account with a connection of its own and fetches, decrypts and verifies files of 4 KiB, one after the other; every one is charged."}
	ctx := context.Background()
	var list []file
	for i := range files {
		list = append(list, file{fmt.Sprintf("file-%d", i), []byte(strings.Repeat(fmt.Sprintf("%07d\n", i), smallBytes/8))})
	}
	if err := w.svc.upload(group, list); err != nil {
		return g, err
	}
	entries, err := w.svc.client.Entries(ctx, group, 0)
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
			if _, err := w.svc.client.AddGroupMember(ctx, group, sdk.AccountID(account)); err != nil {
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
		g.rows = append(g.rows, row{float64(n), []float64{rate(done, took), milliseconds(took) * float64(n) / float64(done),
			mib(statusBytes(w.svc.process.cmd.Process.Pid, "VmRSS:"))}})
	}
	return g, nil
}

func signIn(ctx context.Context, clients []*sdk.Client) error {
	return inParallel(8, len(clients), func(i int) error {
		_, err := clients[i].AuthStatus(ctx, "")
		return err
	})
}

func fetch(ctx context.Context, c *sdk.Client, e sdk.Entry) error {
	b, err := c.Pool().Get(0)
	if err != nil {
		return err
	}
	defer b.Release()
	_, err = c.Retrieve(ctx, e, b)
	return err
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
		if strings.Contains(name, "memory") {
			memory = append(memory, line)
		} else {
			times = append(times, line)
		}
	}
	return max(c.chart(panelGap, y, g.title, g.x, times), c.chart(2*panelGap+panelWidth, y, g.title+": memory", g.x, memory))
}
