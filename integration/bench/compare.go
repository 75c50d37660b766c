package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// sample is one measurement.
type sample struct {
	rep   int // of the repetition
	value float64
	usage
}

// cell is all measurements of one step on one system.
type cell struct {
	samples []sample
	err     error
	took    time.Duration
}

// results are the cells, by step and system.
type results struct {
	cells map[*step]map[string]*cell
	idle  map[string][]int64 // resident memory after mounting, in bytes
}

// Names of the columns that are no file systems.
const (
	namePipeline = "bare pipeline"
	nameDirect   = "bare requests"
)

func (r *results) cell(s *step, name string) *cell {
	if r.cells[s] == nil {
		r.cells[s] = make(map[string]*cell)
	}
	c := r.cells[s][name]
	if c == nil {
		c = &cell{}
		r.cells[s][name] = c
	}
	return c
}

// median of a figure over the samples; ok = there are any.
func (c *cell) median(figure func(sample) float64) (m float64, ok bool) {
	if c == nil || len(c.samples) == 0 {
		return 0, false
	}
	values := make([]float64, len(c.samples))
	for i, s := range c.samples {
		values[i] = figure(s)
	}
	return median(values), true
}

// ratio of a figure to another cell's: the median of what the repetitions give, in
// which both were measured within a short time. ok = there are any.
func (c *cell) ratio(other *cell, figure func(sample) float64) (m float64, ok bool) {
	if c == nil || other == nil {
		return 0, false
	}
	var ratios []float64
	for _, s := range c.samples {
		for _, o := range other.samples {
			if s.rep == o.rep && figure(o) != 0 {
				ratios = append(ratios, figure(s)/figure(o))
			}
		}
	}
	if len(ratios) == 0 {
		return 0, false
	}
	return median(ratios), true
}

func valueOf(s sample) float64 { return s.value }
func cpuOfS(s sample) float64  { return s.cpu.Seconds() }
func peakOf(s sample) float64  { return mib(s.peak) }

// compare runs every scene on every system, alternately, and writes the report.
func (w *world) compare(out string) error {
	begun := time.Now()
	load := loadAverage()
	log.SetOutput(io.Discard) // a server's manners are not ours
	if err := w.newSystems(); err != nil {
		return err
	}
	floor, err := w.newPipeline()
	if err != nil {
		return err
	}
	scenes := w.scenes()
	r := &results{cells: make(map[*step]map[string]*cell), idle: make(map[string][]int64)}
	for rep := range w.reps {
		for _, sc := range scenes {
			progress("%v: repetition %d of %d: %s", time.Since(begun).Round(time.Second), rep+1, w.reps, sc.name)
			w.turn(r, sc, floor, rep)
		}
	}
	if w.over.Load() {
		return nil
	}
	rep := &report{w: w, r: r, scenes: scenes, begun: begun, load: load}
	return errors.Join(os.WriteFile(filepath.Join(out, "results.md"), []byte(rep.markdown()), 0o644),
		os.WriteFile(filepath.Join(out, "results.svg"), []byte(rep.svg()), 0o644))
}

// turn lets all play a scene once: the floors, svcfs next to them, the others, and
// the next time the other way round.
func (w *world) turn(r *results, sc *scene, floor *pipeline, rep int) {
	if rep%2 == 0 {
		w.besides(r, sc, floor, rep)
		for _, s := range w.systems {
			w.play(r, sc, s, rep)
		}
		return
	}
	for _, s := range slices.Backward(w.systems) {
		w.play(r, sc, s, rep)
	}
	w.besides(r, sc, floor, rep)
}

// besides measures what is no file system: the bare pipeline and bare requests.
func (w *world) besides(r *results, sc *scene, f *pipeline, rep int) {
	for _, st := range sc.steps {
		if st.floor != nil {
			m := startMeter(nil, []*process{f.server})
			result, value, err := st.floor(f)
			r.cell(st, namePipeline).add(sample{rep, value, m.stopWith(result)}, err)
		}
		if st.direct == nil || w.svc == nil {
			continue
		}
		d, err := newDirect(w.svc)
		if err != nil {
			r.cell(st, nameDirect).add(sample{}, err)
			continue
		}
		m := startMeter(nil, []*process{w.svc.process})
		value, err := st.direct(d)
		r.cell(st, nameDirect).add(sample{rep, value, m.stop()}, err)
	}
}

func (c *cell) add(s sample, err error) {
	if err != nil {
		c.err = err
		return
	}
	c.samples = append(c.samples, s)
}

// play runs one scene on one system.
func (w *world) play(r *results, sc *scene, s *system, rep int) {
	if w.over.Load() || s.missing != "" || s.scene != "" && s.scene != sc.kind || r.spent(sc, s.name) > w.patience {
		return
	}
	begin := time.Now()
	defer func() { r.cell(sc.steps[0], s.name).took += time.Since(begin) }()
	if err := s.up(sc.cold); err != nil {
		r.failed(sc, s.name, err)
		return
	}
	if sc.steps[0].name == stepFirst {
		r.noteIdle(s)
	}
	_, _ = os.ReadDir(s.path(setWrite)) // the folder that is written to is known; nothing else is
	for _, st := range sc.steps {
		m := s.meter()
		value, err := st.run(s, rep)
		r.cell(st, s.name).add(sample{rep, value, m.stop()}, err)
		if err == nil && st.after != nil {
			err = st.after(s, rep)
		}
		if err != nil && !errors.Is(err, errUnknown) {
			progress("%s: %s: %v", s.name, st.name, err)
		}
	}
	if sc.linger {
		time.Sleep(s.linger)
	}
	if err := s.down(); err != nil {
		r.failed(sc, s.name, err)
	}
}

// spent is how long a scene has taken on a system so far.
func (r *results) spent(sc *scene, name string) time.Duration { return r.cell(sc.steps[0], name).took }

func (r *results) failed(sc *scene, name string, err error) {
	progress("%s: %v", name, err)
	for _, st := range sc.steps {
		r.cell(st, name).err = err
	}
}

func (r *results) noteIdle(s *system) {
	if s.client == nil {
		return
	}
	var sum int64
	for _, pid := range trees([]*process{s.client}) {
		sum += statusBytes(pid, "VmRSS:")
	}
	r.idle[s.name] = append(r.idle[s.name], sum)
}

func loadAverage() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	fields := strings.Fields(string(raw))
	return fmt.Sprint(strings.Join(fields[:3], " "))
}
