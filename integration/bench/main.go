// Command bench is the canonical benchmark: it builds svcd and svcfs, runs them
// beside the floor (tmpfs, and the bare pipeline of HTTP, AES-GCM and SHA-256)
// and beside what users would pick otherwise, and writes medians and ratios to
// results.md and results.svg. See NOTES.md for what the profiles say.
//
// BENCH chooses what runs: nothing = everything below three times; quick = small
// sizes once, for CI; growth = time and memory against size, group and clients;
// service = operations a second of svcd against its stores; large = files of format
// version 2 beside the peers; network = small files, a larger one and listings on slow lines
// beside the peers; large-quick, network-quick = the same with small sizes, once.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// plan says how much is measured.
type plan struct {
	mode     string
	reps     int           // of each cell
	patience time.Duration // a cell that has taken this long is not repeated
	big      int64         // bytes of the large file
	small    int           // files of smallBytes
	listed   int           // entries of the listed folder
	random   int           // random reads of smallBytes
	readers  int           // at once
	tree     string        // what cp -r copies

	idle, settle time.Duration // of BENCH=network: how long an idle mount is watched, and left alone before each row

	lines string // of BENCH=network, see -lines
	rows  string // or sections, see -rows

	otherSvcd string // of BENCH=service, see -other
	profiles  string // folder for profiles of svcd; empty = none
}

const (
	smallBytes = 4 << 10
	blockBytes = 1 << 20 // of one sequential read or write
)

func planFor(mode, goroot string) (plan, error) {
	full := plan{mode: mode, reps: 3, patience: 20 * time.Second, big: 256 << 20, small: 1000, listed: 10_000,
		random: 200_000, readers: 8,
		tree: filepath.Join(goroot, "src", "net")}
	switch mode {
	case "", "growth", "service":
		return full, nil
	case "large", "large-quick":
		full.big, full.patience = 64<<20, 90*time.Second
		if mode == "large-quick" {
			full.big, full.reps = 8<<20, 1
		}
		return full, nil
	case "network":
		return plan{mode: mode, reps: 1, big: 20_000_000, small: 100, listed: 10_000, idle: time.Minute,
			settle: time.Second}, nil
	case "network-quick":
		return plan{mode: mode, reps: 1, big: 2_000_000, small: 20, listed: 200, idle: 3 * time.Second,
			settle: time.Second / 2}, nil
	case "programs":
		return plan{mode: mode, reps: 3, patience: 10 * time.Minute, small: 1800, tree: full.tree, big: full.big}, nil
	case "programs-quick":
		return plan{mode: mode, reps: 1, patience: time.Minute, small: 40, tree: full.tree, big: 8 << 20}, nil
	case "quick":
		return plan{mode: mode, reps: 1, patience: 5 * time.Second, big: 8 << 20, small: 60, listed: 200, random: 500,
			readers: 8,
			tree:    filepath.Join(goroot, "src", "net", "textproto")}, nil
	}
	return plan{}, fmt.Errorf("BENCH=%s: want nothing, quick, growth, service, large, large-quick, network, "+
		"network-quick, programs or programs-quick", mode)
}

func main() {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "floor-") {
		exit(floorMain(os.Args[1], os.Args[2:]))
	}
	if len(os.Args) == 4 && os.Args[1] == "answer" {
		exit(answerMain(os.Args[2], os.Args[3]))
	}
	out := flag.String("out", "integration/bench", "folder of the results")
	only := flag.String("only", "", "systems to run, by the beginnings of their names, comma-separated; empty = all")
	keep := flag.Bool("keep", false, "keep the work folder")
	other := flag.String("other", "", "another svcd that BENCH=service measures in turns with this one")
	profiles := flag.String("profiles", "", "folder for CPU profiles of svcd")
	lines := flag.String("lines", "", "lines of BENCH=network to measure, by their numbers from 1, comma-separated: "+
		"network.md joins the parts of one commit; empty = all, anew")
	rows := flag.String("rows", "", "rows of BENCH=network, or sections of BENCH=large or service, to measure, by the "+
		"beginnings of their names, comma-separated: they are printed, and nothing is written; empty = all")
	flag.Parse()
	exit(run(os.Getenv("BENCH"), *out, *only, *keep, func(p *plan) {
		p.otherSvcd, p.profiles, p.lines, p.rows = *other, *profiles, *lines, *rows
	}))
}

func exit(err error) {
	if err == nil {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

func run(mode, out, only string, keep bool, flags func(*plan)) (err error) {
	goroot, err := commandOutput("go", "env", "GOROOT")
	if err != nil {
		return err
	}
	p, err := planFor(mode, goroot)
	if err != nil {
		return err
	}
	flags(&p)
	if err := os.MkdirAll(out, 0o755); err != nil { // now, not after minutes
		return fmt.Errorf("make the folder of the results: %w", err)
	}
	w, err := newWorld(p, only)
	if err != nil {
		return err
	}
	// the others measure what a mount takes by default
	if slices.Contains([]string{"", "quick", "growth", "service"}, mode) {
		w.mountFlags = []string{"--cache-size", "2GiB", "--max-file-size", "2GiB"}
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		w.over.Store(true)
		w.close() // what is under way fails
	}()
	defer func() {
		w.close()
		if !keep {
			err = errors.Join(err, os.RemoveAll(w.dir), os.RemoveAll(w.shm))
		}
		if w.over.Load() {
			err = errors.New("interrupted")
		}
	}()
	switch mode {
	case "growth":
		return w.growth(out)
	case "service":
		return w.throughput(out)
	case "programs", "programs-quick":
		return w.programs(out)
	case "large", "large-quick":
		return w.large(out, mode == "large-quick")
	case "network", "network-quick":
		return w.network(out, mode == "network-quick")
	}
	return w.compare(out)
}
