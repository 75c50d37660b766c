package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	namePlain = "plain folder"

	programBytes = 64 << 10 // of a file of the archive and the repository, at most
	appendBytes  = 4 << 10  // of stepSync

	stepTar   = "tar x"
	stepUnzip = "unzip"
	stepGit   = "git clone, commit, gc"
	stepVenv  = "python -m venv"
	stepNpm   = "npm install"
	stepSync  = "append and sync, as often as tar has files"
)

// programs measures programs that write many small files.
func (w *world) programs(out string) error {
	begun, load := time.Now(), loadAverage()
	log.SetOutput(io.Discard)
	files := w.small
	w.small, w.listed, w.big = 1, 1, 2*smallBytes // the data set of the other modes is of no interest here
	w.data = w.data[:w.big]
	withOutbox := func() ([]*system, error) {
		return w.svcfsIn([]svcfsMode{{svcfsKeep, "the default: close returns when the ledger has the file", nil, ""},
			{svcfsOutbox, "close returns when the file is encrypted on this disk and synced", []string{"--outbox"},
				""}})
	}
	if err := w.prepare(w.plain, w.answer, withOutbox, w.gocryptfs); err != nil {
		return err
	}
	floor, err := w.newPipeline()
	if err != nil {
		return err
	}
	w.small = files
	sources, err := w.programSources()
	if err != nil {
		return err
	}
	r := &results{cells: make(map[*step]map[string]*cell), idle: make(map[string][]int64)}
	rep := &report{w: w, r: r, begun: begun, load: load, scenes: w.programScenes(sources)}
	for i := range w.reps {
		for _, sc := range rep.scenes {
			progress("%v: turn %d of %d: %s", time.Since(begun).Round(time.Second), i+1, w.reps, sc.name)
			w.turn(r, sc, floor, i)
		}
	}
	if w.over.Load() {
		return nil
	}
	return os.WriteFile(filepath.Join(out, "programs.md"), []byte(rep.programsMarkdown()), 0o644)
}

// plain is a folder of the disk.
func (w *world) plain() ([]*system, error) {
	s := &system{name: namePlain, root: w.path("plain"), note: "nothing is encrypted, nothing is synced"}
	s.fill = func() error { return w.writeTo(s.root) }
	return w.chosen(s), nil
}

// sources are what the programs begin with, outside what is measured.
type sources struct {
	tar, zip, repository, npm string
	files                     int
	err                       error // why there is nothing to install
}

// programSources packs files of the Go distribution.
func (w *world) programSources() (s sources, err error) {
	s = sources{tar: w.path("files.tar"), zip: w.path("files.zip"), repository: w.path("repository"),
		npm: w.path("npm")}
	var packed, zipped bytes.Buffer
	tw, zw := tar.NewWriter(&packed), zip.NewWriter(&zipped)
	root := filepath.Dir(w.tree)
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || s.files == w.small {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil || len(content) > programBytes {
			return err
		}
		name, _ := filepath.Rel(root, path) // below it
		s.files++
		return errors.Join(
			tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: time.Now()}),
			writeTo(tw, content), writeToZip(zw, name, content), writeFile(filepath.Join(s.repository, name), content))
	})
	err = errors.Join(err, tw.Close(), zw.Close(), os.WriteFile(s.tar, packed.Bytes(), 0o600),
		os.WriteFile(s.zip, zipped.Bytes(), 0o600))
	if err == nil {
		_, err = commandOutput("sh", "-ec", gitIdentity+`cd "$1"; git init -q; git add .; git commit -qm files`, "sh",
			s.repository)
	}
	if err == nil { // fills the cache
		_, s.err = commandOutput("sh", "-ec", npmInstall, "sh", filepath.Join(s.npm, "first"),
			filepath.Join(s.npm, "cache"))
	}
	return s, err
}

const (
	gitIdentity = `export GIT_AUTHOR_NAME=bench GIT_AUTHOR_EMAIL=b@localhost GIT_COMMITTER_NAME=bench GIT_COMMITTER_EMAIL=b@localhost; `
	npmInstall  = `mkdir -p "$1"; cd "$1"; npm install --cache "$2" --prefer-offline --no-audit --no-fund --silent express eslint`
)

func writeTo(to io.Writer, content []byte) error {
	_, err := to.Write(content)
	return err
}

func writeToZip(zw *zip.Writer, name string, content []byte) error {
	to, err := zw.Create(name)
	if err != nil {
		return err
	}
	return writeTo(to, content)
}

func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// programScenes has one scene for each program, so that what an outbox sends late is not in the next one.
func (w *world) programScenes(s sources) (list []*scene) {
	add := func(name, script, source string) {
		st := &step{name: name, unit: "s", lower: true, run: func(sys *system, rep int) (float64, error) {
			if name == stepNpm && s.err != nil {
				return 0, s.err
			}
			return runProgram(sys, fmt.Sprintf("%d-%s-%s", rep, fileName(name), fileName(sys.name)), script, source)
		}}
		if name == stepTar {
			st.floor = func(f *pipeline) (floorResult, float64, error) {
				r, err := f.client("save", s.files, smallBytes)
				return r, r.Seconds, err
			}
		}
		list = append(list, &scene{name: name, linger: true, steps: []*step{st}})
	}
	add(stepTar, `tar xf "$2" -C "$1"`, s.tar)
	add(stepUnzip, `unzip -q "$2" -d "$1"`, s.zip)
	add(
		stepGit,
		gitIdentity+`git clone -q "$2" "$1/clone"; cd "$1/clone"; echo more >more; git add more; git commit -qm more; git gc -q`,
		s.repository)
	add(stepVenv, `python3 -m venv "$1/venv"`, "")
	add(stepNpm, npmInstall, filepath.Join(s.npm, "cache"))
	return append(list, &scene{name: stepSync,
		steps: []*step{{name: stepSync, unit: "s", lower: true, run: w.syncEach(s.files)}}})
}

// syncEach appends to one file of the disk and syncs it, which is the least that durable saves one after the other
// cost.
func (w *world) syncEach(n int) func(s *system, rep int) (float64, error) {
	return func(s *system, _ int) (float64, error) {
		if s.name != namePlain {
			return 0, errUnknown
		}
		f, err := os.Create(s.path("synced"))
		if err != nil {
			return 0, err
		}
		defer f.Close()
		begin := time.Now()
		for range n {
			if _, err := f.Write(make([]byte, appendBytes)); err != nil {
				return 0, err
			}
			if err := f.Sync(); err != nil {
				return 0, err
			}
		}
		return time.Since(begin).Seconds(), nil
	}
}

// runProgram runs a script in a new folder, and returns its seconds.
func runProgram(s *system, name, script, source string) (float64, error) {
	dir := s.path(setWrite, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	begin := time.Now()
	cmd := exec.Command("sh", "-ec", script, "sh", dir, source)
	if text, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w: %.300s", err, text)
	}
	return time.Since(begin).Seconds(), nil
}

const howPrograms = `Programs that write many small files, each into a new folder of a fresh mount, the systems in turns. Seconds are those of
the program; what an outbox sends afterwards is not in them. CPU is that of the mount and its server. The *bare pipeline* of
` + stepTar + ` makes as many bare saves one after the other (see results.md). *go-fuse, from memory* is what the kernel and go-fuse cost
alone. gocryptfs syncs nothing at close; with an outbox each close has synced the file, so that a loss of power takes nothing, and
without one the ledger has it: *` + stepSync + `* is the least that costs here.`

func (r *report) programsMarkdown() string {
	of := func(step, a, b string) func(*report) (float64, bool) {
		return func(r *report) (float64, bool) { return r.find(step, a).ratio(r.find(step, b), valueOf) }
	}
	var targets []target
	for _, step := range []string{stepTar, stepUnzip, stepGit, stepVenv, stepNpm} {
		targets = append(targets, target{step + ": with an outbox, of gocryptfs's time", 1.3, true,
			of(step, svcfsOutbox, "gocryptfs")},
			target{step + ": without, of gocryptfs's time", 2, true, of(step, svcfsKeep, "gocryptfs")},
			target{step + ": with an outbox, of the time without", 1, true, of(step, svcfsOutbox, svcfsKeep)})
	}
	return "# Programs that write many small files\n\nMade by `make bench BENCH=programs`; do not edit.\n\n" +
		r.environment() +
		"\n## How it was measured\n\n" + howPrograms + "\n\n## Targets\n\n" + r.targetTable(targets) + r.largeTables()
}
