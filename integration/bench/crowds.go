package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// onCrowds measures processes on PostgreSQL and S3.
func (r *serviceReport) onCrowds(measure func(b backing) (string, error)) (string, error) {
	b, err := r.onPostgres()
	if err != nil {
		return fmt.Sprintf("Not measured: %v.\n", err), nil
	}
	return measure(b)
}

// crowdRuns are runs of several turns, by the number of processes.
type crowdRuns map[int][]crowdRun

// medianOf returns the median of a figure of runs.
func (c crowdRuns) medianOf(processes int, figure func(crowdRun) float64) float64 {
	return medianOf(c[processes], figure)
}

func medianOf(runs []crowdRun, figure func(crowdRun) float64) float64 {
	var list []float64
	for _, r := range runs {
		list = append(list, figure(r))
	}
	return median(list)
}

func rateOf(r crowdRun) float64  { return r.rate }
func idleOf(r crowdRun) float64  { return r.idle }
func eachOf(r crowdRun) float64  { return r.cpu }
func ownOf(r crowdRun) float64   { return r.own }
func tripsOf(r crowdRun) float64 { return r.trips }

// against returns the median of the ratios of the rates of each turn.
func (c crowdRuns) against(processes int, other crowdRuns, others int) float64 {
	var ratios []float64
	for turn, r := range c[processes] {
		ratios = append(ratios, r.rate/other[others][turn].rate)
	}
	return median(ratios)
}

// table has a line for each number of processes. other is of another svcd; nil = none.
func (c crowdRuns) table(each int, other crowdRuns) string {
	text := "| Processes | Clients | uploads a second | lowest and highest | of one process | CPU of svcd, ms each | " +
		"CPU idle | CPU of all that is measured | round trips to PostgreSQL each |"
	line := "\n|---:|---:|---:|---|---:|---:|---:|---:|---:|"
	if other != nil {
		text, line = text+" the other svcd a second | of the other's |", line+"---:|---:|"
	}
	text += line + "\n"
	for _, n := range slices.Sorted(maps.Keys(c)) {
		compare := func(a, b crowdRun) int { return cmp.Compare(a.rate, b.rate) }
		low, high := slices.MinFunc(c[n], compare).rate, slices.MaxFunc(c[n], compare).rate
		text += fmt.Sprintf("| %d | %d | %s | %s, %s | %s | %s | %.0f %% | %.0f %% | %s |", n, n*each,
			short(c.medianOf(n, rateOf)), short(low), short(high), short(c.against(n, c, 1)),
			short(c.medianOf(n, eachOf)),
			100*c.medianOf(n, idleOf), 100*c.medianOf(n, ownOf), orDash(c.medianOf(n, tripsOf)))
		if other != nil {
			text += fmt.Sprintf(" %s | %s |", short(other.medianOf(n, rateOf)), short(c.against(n, other, n)))
		}
		text += "\n"
	}
	return text
}

// far measures one, two and three processes at some distance from their stores.
func (r *serviceReport) far(b backing) (string, error) {
	d, err := r.w.deploy(b, filepath.Join(r.w.bin, "svcd"), "far")
	if err != nil {
		return "", err
	}
	runs, each := crowdRuns{}, 0
	for turn := 0; turn < turns; turn++ {
		if turn == 0 {
			each, err = d.firstTurn(runs)
		} else {
			err = d.turn(runs, []int{1, 2, 3}, each, farTrip)
		}
		if err != nil {
			return "", err
		}
	}
	commit, err := d.commitTime(farTrip)
	if err != nil {
		return "", err
	}
	bound := float64(each) / (2*farTrip + commit).Seconds()
	r.ratios[targetThree], r.ratios[targetBound] = runs.against(3, runs, 1), runs.medianOf(1, rateOf)/bound
	for _, n := range []int{1, 3} {
		r.needsIdle(fmt.Sprintf("%d svcd far from their stores", n), runs[n])
	}
	trips, err := r.trips(d)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("A line with a round trip of %v between svcd and each of its stores, %v a run, median of %d "+
		"turns. Each client has an account and a group of its own, and uploads files of 4 KiB. A bare commit over the "+
		"same line takes %s ms, so that the bound of one process is %d clients / (2 × %v + a commit) = %s a second. "+
		"All that is measured are svcd, its stores, and the clients.\n\n",
		farTrip, crowdLasting, turns, short(milliseconds(commit)), each, farTrip, short(bound)) +
		runs.table(each, nil) + "\n" + trips + r.locks(d), nil
}

// firstTurn chooses so many clients for each process that CPU stays idle, unless others use it.
func (d *deployment) firstTurn(runs crowdRuns) (each int, err error) {
	for _, each = range crowdSizes() {
		clear(runs)
		if err := d.turn(runs, []int{1, 2, 3}, each, farTrip); err != nil {
			return each, err
		}
		if most := runs[3][0]; most.idle >= idleEnough || most.own < 0.5 {
			break
		}
	}
	return each, nil
}

func (d *deployment) turn(runs crowdRuns, processes []int, each int, trip time.Duration) error {
	for _, n := range processes {
		r, err := d.run(n, each, trip)
		if err != nil {
			return err
		}
		runs[n] = append(runs[n], r)
	}
	return nil
}

// near measures one and three processes beside their stores, in turns with another svcd, and how long checkpoints
// take.
func (r *serviceReport) near(b backing) (string, error) {
	own, err := r.w.deploy(b, filepath.Join(r.w.bin, "svcd"), "near")
	if err != nil {
		return "", err
	}
	var other *deployment
	runs, others := crowdRuns{}, crowdRuns(nil)
	if r.w.otherSvcd != "" {
		others = crowdRuns{}
		if other, err = r.w.deploy(b, r.w.otherSvcd, "other"); err != nil {
			return "", err
		}
	}
	each := crowdSizes()[0]
	for range turns {
		for _, n := range []int{1, 3} {
			err := own.turn(runs, []int{n}, each, 0)
			if err == nil && other != nil {
				err = other.turn(others, []int{n}, each, 0)
			}
			if err != nil {
				return "", err
			}
		}
	}
	if other != nil {
		r.ratios[targetOther], r.ratios[targetOthers] = runs.against(1, others, 1), runs.against(3, others, 3)
	}
	for _, n := range []int{1, 3} {
		r.needsOwn(fmt.Sprintf("%d svcd beside their stores", n), runs[n])
	}
	best := 1
	if runs.medianOf(3, rateOf) > runs.medianOf(1, rateOf) {
		best = 3
	}
	covered, err := r.covered(own, best, each, runs.medianOf(best, rateOf)*partOfBest)
	return fmt.Sprintf("The same without a line, %v a run, median of %d turns.\n\n", crowdLasting, turns) +
		runs.table(each, others) + "\n" + covered + r.locks(own), err
}

// commitTime is the median of the time that a transaction of one inserted row takes, over a line.
func (d *deployment) commitTime(trip time.Duration) (time.Duration, error) {
	c := &running{d: d}
	defer c.end()
	if err := c.reach(trip); err != nil {
		return 0, err
	}
	db, err := sql.Open("pgx", c.stores[1])
	if err != nil {
		return 0, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE IF NOT EXISTS floor (n BIGINT, t TEXT)"); err != nil {
		return 0, err
	}
	var list []float64
	for i := range 50 {
		begin := time.Now()
		if _, err := db.Exec("INSERT INTO floor (n, t) VALUES ($1, 'a row of the ledger is longer than this one')",
			i); err != nil {
			return 0, err
		}
		list = append(list, time.Since(begin).Seconds())
	}
	return time.Duration(median(list) * float64(time.Second)), nil
}

// trips counts round trips to PostgreSQL of one client, without those that svcd makes anyway.
func (r *serviceReport) trips(d *deployment) (string, error) {
	const idle, each = 3 * time.Second, 20
	progress("round trips")
	c, err := d.start(1, 1, farTrip)
	if err != nil {
		return "", err
	}
	defer c.end()
	group := c.clients[0].Group(d.members[0].group)
	entries, err := group.Entries(context.Background())
	if err != nil {
		return "", err
	}
	before := c.turns()
	time.Sleep(idle)
	anyway := float64(c.turns()-before) / idle.Seconds()
	count := func(do func(i int) error) (float64, error) {
		before, begin := c.turns(), time.Now()
		if err := inParallel(1, each, do); err != nil {
			return 0, err
		}
		return (float64(c.turns()-before) - anyway*time.Since(begin).Seconds()) / each, nil
	}
	saves, err1 := count(func(int) error { _, err := c.upload(0); return err })
	reads, err2 := count(func(i int) error {
		return fetch(context.Background(), c.clients[0], entries[i%len(entries)])
	})
	r.ratios[targetTrips], r.ratios[targetFetch] = saves, reads
	return fmt.Sprintf("One client alone: a save takes %s round trips to PostgreSQL, a retrieval %s; svcd makes %s a "+
		"second anyway.\n", short(saves), short(reads), short(anyway)), errors.Join(err1, err2)
}

const (
	// partOfBest is the load under which checkpoints are watched, of the greatest one.
	partOfBest = 0.9
	// watching is for how long.
	watching = 10 * time.Second
	// lingers is how long checkpoints are watched after the last save.
	lingers = 5 * time.Second
	// lookEvery is how often sessions and checkpoints are looked at.
	lookEvery = 10 * time.Millisecond
)

// covered lets clients upload at a pace, in uploads a second, and tells how long it takes until the checkpoint of
// their process has their records.
func (r *serviceReport) covered(d *deployment, n, each int, pace float64) (string, error) {
	progress("checkpoints")
	c, err := d.start(n, each, 0)
	if err != nil {
		return "", err
	}
	defer c.end()
	over := make(chan struct{})
	looks := make(chan [][]look)
	go func() { looks <- watchCheckpoints(c.services, over) }()
	saves := make([][]saved, len(c.clients))
	begin := time.Now()
	err = inParallel(len(c.clients), len(c.clients), func(i int) error {
		between := time.Duration(float64(len(c.clients)) / pace * float64(time.Second))
		due := begin.Add(between * time.Duration(i) / time.Duration(len(c.clients)))
		for time.Since(begin) < watching {
			time.Sleep(time.Until(due))
			due = due.Add(between)
			receipt, err := c.upload(i)
			if err != nil {
				return err
			}
			saves[i] = append(saves[i], saved{string(receipt.Ref), time.Now()})
		}
		return nil
	})
	reached := rate(len(slices.Concat(saves...)), time.Since(begin))
	time.Sleep(lingers)
	close(over)
	seen := <-looks
	if err != nil {
		return "", err
	}
	delays, missing, err := c.delays(saves, seen)
	if err != nil || len(delays) == 0 {
		return "", errors.Join(err, fmt.Errorf("%d saves that no checkpoint covers", missing))
	}
	slices.Sort(delays)
	half, most := median(delays), delays[len(delays)*99/100]
	r.ratios[targetHalf], r.ratios[targetMost] = half, most
	return fmt.Sprintf("Checkpoints, of %d svcd at %s uploads a second, %.0f %% of the greatest load: from the answer to "+
		"a save to the signed checkpoint of the same process that covers it, half of %d within %s s, 99 of 100 within %s "+
		"s, all within %s s; %d were never covered.\n",
		n, short(reached), 100*partOfBest, len(delays), short(half), short(most),
		short(delays[len(delays)-1]), missing), nil
}

// saved is an answer to an upload.
type saved struct {
	ref string
	at  time.Time
}

// look is a new checkpoint.
type look struct {
	at      time.Time
	records int64
}

// watchCheckpoints returns the checkpoints of each service that come until over is closed.
func watchCheckpoints(services []*service, over <-chan struct{}) [][]look {
	seen := make([][]look, len(services))
	for {
		for i, s := range services {
			raw, err := os.ReadFile(filepath.Join(s.data, "tlog", "checkpoint"))
			fields := strings.SplitN(string(raw), "\n", 3) // origin, records, …
			if err != nil || len(fields) < 3 {
				continue // there is none yet
			}
			n, err := strconv.ParseInt(fields[1], 10, 64)
			if last := len(seen[i]) - 1; err == nil && (last < 0 || seen[i][last].records < n) {
				seen[i] = append(seen[i], look{time.Now(), n})
			}
		}
		select {
		case <-over:
			return seen
		case <-time.After(lookEvery):
		}
	}
}

// delays returns the seconds from each save to the first checkpoint that has its record, and how many have none.
func (c *running) delays(saves [][]saved, seen [][]look) (list []float64, missing int, err error) {
	for i, own := range saves {
		entries, err := c.clients[i].Group(c.d.members[i].group).Entries(context.Background())
		if err != nil {
			return nil, 0, err
		}
		numbers := make(map[string]int64, len(entries))
		for _, e := range entries {
			numbers[string(e.Ref)] = int64(e.Seq)
		}
		looks := seen[i%len(c.services)]
		for _, s := range own {
			n, known := numbers[s.ref]
			at := slices.IndexFunc(looks, func(l look) bool { return l.records >= n })
			if !known || at < 0 {
				missing++
				continue
			}
			list = append(list, max(0, looks[at].at.Sub(s.at).Seconds()))
		}
	}
	return list, missing, nil
}
