package main

import (
	"fmt"
	"slices"
)

// target is a ratio that svcfs should reach. It is told, never enforced: a
// machine that is busy with something else misses what it reached yesterday.
type target struct {
	text  string
	limit float64
	most  bool // the ratio may be at most limit; else at least
	ratio func(r *report) (float64, bool)
}

func (t target) reached(ratio float64) bool { return t.most == (ratio <= t.limit) || ratio == t.limit }

const (
	svcfsKeep    = "svcfs keep"
	svcfsNoXattr = "svcfs no-xattr"
	rcloneOff    = "rclone crypt (cache off)"
	rcloneFull   = "rclone crypt (cache full)"
	sshfsName    = "sshfs"
)

// targets of the product; where they name no mode, they speak of the default.
func (r *report) targets() []target {
	ofValues := func(step, a, b string) func(*report) (float64, bool) {
		return func(r *report) (float64, bool) { return r.find(step, a).ratio(r.find(step, b), valueOf) }
	}
	ofCPU := func(step string) func(*report) (float64, bool) {
		return func(r *report) (float64, bool) {
			return r.find(step, svcfsKeep).ratio(r.find(step, namePipeline), cpuOfS)
		}
	}
	// ofFloors is CPU of what cannot be left out: the pipeline, and a mount that does nothing but answer.
	ofFloors := func(step string) func(*report) (float64, bool) {
		return func(r *report) (float64, bool) {
			own, known := r.find(step, svcfsKeep).median(cpuOfS)
			bare, ok := r.find(step, namePipeline).median(cpuOfS)
			answer, also := r.find(step, nameAnswer).median(cpuOfS)
			return own / (bare + answer), known && ok && also
		}
	}
	inverse := func(of func(*report) (float64, bool)) func(*report) (float64, bool) {
		return func(r *report) (float64, bool) {
			x, ok := of(r)
			return 1 / x, ok && x != 0
		}
	}
	return []target{
		{"warm sequential read, of tmpfs", 0.75, false, ofValues(stepWarm, svcfsKeep, "tmpfs")},
		{"random 4 KiB reads, of tmpfs", 0.9, false, ofValues(stepRandom, svcfsKeep, "tmpfs")},
		{"cold read, of the bare pipeline", 0.9, false, ofValues(stepCold, svcfsKeep, namePipeline)},
		{"cold first byte, of rclone crypt's time", 1, true, ofValues(stepFirst, svcfsKeep, rcloneOff)},
		{"cold read, of rclone crypt", 2.5, false, ofValues(stepCold, svcfsKeep, rcloneOff)},
		{"warm read, of gocryptfs", 4, false, ofValues(stepWarm, svcfsKeep, "gocryptfs")},
		{"write with close, of the bare pipeline", 0.9, false, ofValues(stepWrite, svcfsKeep, namePipeline)},
		{"creating small files, of rclone crypt", 5, false, ofValues(stepCreate, svcfsKeep, rcloneOff)},
		{"cold small files, of rclone crypt", 5, false, ofValues(stepSmallCold, svcfsKeep, rcloneOff)},
		{"cold small files, of one bare request's time each", 1.3, true,
			inverse(ofValues(stepSmallCold, svcfsKeep, nameDirect))},
		{"cold ls -l, of the time to fetch and decode the rows", 1.5, true,
			ofValues(stepListCold, svcfsKeep, nameDirect)},
		{"cold ls -l without attributes, of the time to fetch and decode the rows", 1.5, true,
			ofValues(stepListCold, svcfsNoXattr, nameDirect)},
		{"warm ls -l, of tmpfs", 0.8, false, inverse(ofValues(stepListWarm, svcfsKeep, "tmpfs"))},
		{"warm ls -l without attributes, of tmpfs", 0.8, false, inverse(ofValues(stepListWarm, svcfsNoXattr, "tmpfs"))},
		{"peak memory of a cold read of a file that stays in memory, of the file", 1.1, true,
			func(r *report) (float64, bool) {
				x, ok := r.find(stepCold, svcfsKeep).median(peakOf)
				return x / mib(r.w.big), ok
			}},
		{"idle memory in MiB", 64, true, func(r *report) (float64, bool) { return r.idleMiB(svcfsKeep) }},
		{"CPU of a cold read, of the bare pipeline", 1.2, true, ofCPU(stepCold)},
		{"CPU of a cold read, of the bare pipeline and go-fuse from memory together", 1.2, true, ofFloors(stepCold)},
		{"CPU of a write, of the bare pipeline and go-fuse from memory together", 1.2, true, ofFloors(stepWrite)},
		{"CPU of a write, of the bare pipeline", 1.2, true, ofCPU(stepWrite)},
		{"CPU of a save of 4 KiB, of the bare pipeline", 2, true, ofCPU(stepCreate)},
	}
}

// targetTable says of each target whether it was reached, but for those of the texts in busy: the machine changed while
// they were measured.
func (r *report) targetTable(targets []target, busy ...string) string {
	text := "| Target | Limit | Measured | |\n|---|---|---|---|\n"
	for _, t := range targets {
		sign := "≥"
		if t.most {
			sign = "≤"
		}
		ratio, ok := t.ratio(r)
		verdict, figure := "not measured", "–"
		if ok {
			verdict, figure = "**missed**", short(ratio)
			switch {
			case slices.Contains(busy, t.text):
				verdict = "busy"
			case t.reached(ratio):
				verdict = "reached"
			}
		}
		text += fmt.Sprintf("| %s | %s %s | %s | %s |\n", t.text, sign, short(t.limit), figure, verdict)
	}
	return text
}
