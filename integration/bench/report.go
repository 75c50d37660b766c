package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report turns results into text and a picture.
type report struct {
	w      *world
	r      *results
	scenes []*scene
	begun  time.Time
	load   string
}

// find returns the cell of a step by name, nil when it was not measured.
func (r *report) find(step, system string) *cell {
	for _, sc := range r.scenes {
		for _, st := range sc.steps {
			if st.name == step {
				return r.r.cells[st][system]
			}
		}
	}
	return nil
}

func (r *report) value(step, system string) (float64, bool) {
	return r.find(step, system).median(valueOf)
}

func (r *report) idleMiB(system string) (float64, bool) {
	list := slices.Clone(r.r.idle[system])
	if len(list) == 0 {
		return 0, false
	}
	slices.Sort(list)
	return mib(list[len(list)/2]), true
}

// short writes a figure with three digits that count.
func short(x float64) string {
	switch a := math.Abs(x); {
	case x == math.Trunc(x) && a < 1000:
		return fmt.Sprintf("%.0f", x)
	case a >= 100:
		return fmt.Sprintf("%.0f", x)
	case a >= 10:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.2f", x)
	}
}

const howMeasured = `Every system runs the same steps in the same session, one after the other, the next time the other way round; figures are
medians, lowest and highest in brackets. A target's ratio is the median of the repetitions' ratios: what the machine
did meanwhile, both had. *Cold* means that nothing decrypted is in memory: the file system was mounted anew, which
takes the kernel's pages of it away, and its own cache folder was emptied. The page cache was dropped once all systems were filled%s,
and then what they store was read once: nobody waits for a disk. tmpfs is never cold. The *bare pipeline* receives a file over loopback HTTP, opens AES-256-GCM in place and takes the
SHA-256, or the reverse with a server that syncs the file before it answers: no ledger, no file system. That of the large file moves parts of blocks: large.md. That of a small file that is created
also seals the key to the server, which opens it and commits one row to SQLite instead of a file. *Bare requests* are single
requests to svcd on a kept connection. svcd runs without its bound on requests (--request-rate -1; by default 500 a second for one
account). CPU is user and system time of the client, its server and the program that reads or writes;
memory is the largest resident size of the client. What close means differs: svcfs has the file on the service's disk and ledger
by then, rclone without its cache and s3fs have it on their server without a sync, gocryptfs and sshfs in a page cache,
rclone with its cache has not sent it yet.
`

func (r *report) markdown() string {
	var b strings.Builder
	b.WriteString("# Benchmark results\n\nMade by `make bench`; do not edit. What the profiles say is in NOTES.md.\n\n")
	b.WriteString(r.environment())
	dropped := ""
	if !canDrop() {
		dropped = " (not on this run: that needs root)"
	}
	b.WriteString("\n## How it was measured\n\n" + fmt.Sprintf(howMeasured, dropped) + "\n## Targets\n\n" +
		r.targetTable(r.targets()))
	b.WriteString("\n![chart](results.svg)\n")
	for _, sc := range r.scenes {
		b.WriteString("\n## " + sc.name + "\n\n" + r.table(sc))
	}
	b.WriteString("\n## Idle memory after mounting, MiB\n\n| System | MiB |\n|---|---|\n")
	for _, s := range r.w.systems {
		if m, ok := r.idleMiB(s.name); ok {
			fmt.Fprintf(&b, "| %s | %s |\n", s.name, short(m))
		}
	}
	return b.String()
}

// environment says where, when and with what it was measured.
func (r *report) environment() string {
	var b strings.Builder
	b.WriteString(environmentOf(r.w, r.begun, r.load))
	b.WriteString("\n| System | Version | Note |\n|---|---|---|\n")
	for _, s := range r.w.systems {
		note := s.note
		if s.missing != "" {
			note = "**" + s.missing + "**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", s.name, strings.ReplaceAll(s.version, "|", "/"), note)
	}
	return b.String()
}

func environmentOf(w *world, begun time.Time, load string) string {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	mode := w.mode
	if mode == "" {
		mode = "full"
	}
	fewer := ""
	if w.reps > 1 {
		fewer = fmt.Sprintf(" (fewer where one took longer than %v)", w.patience)
	}
	return fmt.Sprintf("%s, %d of each%s. Commit %s. %s, %d cores, %s of memory. Linux %s. %s. Load before it "+
		"began: %s.\n",
		begun.UTC().Format("2006-01-02 15:04 UTC")+", "+mode+" run, "+time.Since(begun).Round(time.Second).String(),
		w.reps, fewer, commit(),
		cpuModel(), runtime.NumCPU(), memoryTotal(), strings.TrimSpace(string(kernel)), runtime.Version(), load)
}

// commit names what is measured.
func commit() string {
	name, err := commandOutput("git", "describe", "--always", "--dirty", "--abbrev=12")
	if err != nil {
		return "unknown"
	}
	return name
}

func cpuModel() string {
	return procLine("/proc/cpuinfo", "model name")
}

func memoryTotal() string {
	fields := strings.Fields(procLine("/proc/meminfo", "MemTotal"))
	if len(fields) == 0 {
		return "unknown"
	}
	var kib float64
	fmt.Sscan(fields[0], &kib)
	return short(kib/(1<<20)) + " GiB"
}

func procLine(path, key string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(raw)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// columns are the names measured in a scene, the floors first.
func (r *report) columns(sc *scene) (names []string) {
	for _, extra := range []string{namePipeline, nameDirect} {
		for _, st := range sc.steps {
			if r.r.cells[st][extra] != nil {
				names = append(names, extra)
				break
			}
		}
	}
	for _, s := range r.w.systems {
		if s.scene == "" || s.scene == sc.kind {
			names = append(names, s.name)
		}
	}
	return names
}

// table has a row per system and, for every step, the figure, its CPU seconds
// and its peak memory.
func (r *report) table(sc *scene) string {
	var head, line strings.Builder
	head.WriteString("| System |")
	line.WriteString("|---|")
	for _, st := range sc.steps {
		if st.bare {
			fmt.Fprintf(&head, " %s, %s |", st.name, st.unit)
			line.WriteString("---:|")
			continue
		}
		fmt.Fprintf(&head, " %s, %s | CPU s | MiB |", st.name, st.unit)
		line.WriteString("---:|---:|---:|")
	}
	var b strings.Builder
	b.WriteString(head.String() + "\n" + line.String() + "\n")
	for _, name := range r.columns(sc) {
		b.WriteString("| " + name + " |")
		for _, st := range sc.steps {
			b.WriteString(cellText(r.r.cells[st][name], st.bare))
		}
		b.WriteString("\n")
	}
	return b.String() + r.failures(sc)
}

func cellText(c *cell, bare bool) string {
	rest := " | |"
	if bare {
		rest = ""
	}
	value, ok := c.median(valueOf)
	if !ok {
		if c != nil && c.err != nil && !errors.Is(c.err, errUnknown) {
			return " failed |" + rest
		}
		return " – |" + rest
	}
	cpu, _ := c.median(cpuOfS)
	peak, _ := c.median(peakOf)
	text := short(value)
	if n := len(c.samples); n > 1 {
		low, high := c.samples[0].value, c.samples[0].value
		for _, s := range c.samples {
			low, high = min(low, s.value), max(high, s.value)
		}
		text += fmt.Sprintf(" (%s–%s)", short(low), short(high))
	}
	if bare {
		return " " + text + " |"
	}
	memory := "–"
	if peak > 0 {
		memory = short(peak)
	}
	return fmt.Sprintf(" %s | %s | %s |", text, short(cpu), memory)
}

// failures says why a cell is empty; the same reason once.
func (r *report) failures(sc *scene) string {
	var b strings.Builder
	for _, name := range r.columns(sc) {
		said := ""
		for _, st := range sc.steps {
			c := r.r.cells[st][name]
			if c == nil || c.err == nil || errors.Is(c.err, errUnknown) || c.err.Error() == said {
				continue
			}
			said = c.err.Error()
			fmt.Fprintf(&b, "\n%s, %s: %.300s\n", name, st.name, strings.ReplaceAll(said, "\n", " "))
		}
	}
	return b.String()
}
