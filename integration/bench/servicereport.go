package main

import (
	"database/sql"
	"fmt"
	"strings"
)

// serviceReport collects what BENCH=service measures.
type serviceReport struct {
	w       *world
	helper  *tester
	picture *canvas

	postgres backing
	noStores error // why there is no PostgreSQL or no S3
	opened   bool

	ratios  map[string]float64 // what was measured of targets, by their texts
	limited []string           // where the machine was measured, and not the service
	busy    []string           // targets that were measured while the machine changed
}

// serviceSection is one part of BENCH=service, see -rows.
type serviceSection struct {
	name    string
	measure func(name string) (string, error)
}

func (r *serviceReport) sections() []serviceSection {
	return []serviceSection{
		{"SQLite and a folder", func(name string) (string, error) { return r.alone(name, r.w.onSQLite) }},
		{"PostgreSQL and S3", func(name string) (string, error) { return r.alone(name, r.onPostgres) }},
		{"Commits of SQLite in turns with svcd", func(string) (string, error) { return r.besideCommits() }},
		{"Processes far from PostgreSQL and S3", func(string) (string, error) { return r.onCrowds(r.far) }},
		{"Processes beside PostgreSQL and S3", func(string) (string, error) { return r.onCrowds(r.near) }},
	}
}

// onPostgres starts PostgreSQL and S3 at the first call.
func (r *serviceReport) onPostgres() (backing, error) {
	if !r.opened {
		r.opened = true
		r.postgres, r.noStores = r.w.onPostgres(r.helper)
	}
	return r.postgres, r.noStores
}

// alone measures one process of svcd on a pair of stores, and the stores without it.
func (r *serviceReport) alone(name string, open func() (backing, error)) (string, error) {
	b, err := open()
	if err != nil {
		return fmt.Sprintf("Not measured: %v.\n", err), nil
	}
	progress("floor of %s", name)
	floors, err := b.floors()
	if err != nil {
		return "", err
	}
	progress("svcd on %s", name)
	served, err := r.w.serveFrom(b)
	if err != nil {
		return "", err
	}
	r.picture.height += drawFigures(r.picture, r.picture.height, name, floors, served) + panelGap
	text := fmt.Sprintf("%d clients of one account and group at once, %v each. A floor is the same store without "+
		"svcd, with the same durability: one row and one commit, or one object. CPU is that of svcd alone. Written is "+
		"what svcd writes to the disk with SQLite and a folder, and the write-ahead log with PostgreSQL.\n",
		senders, lasting)
	if r.w.otherSvcd != "" {
		text += fmt.Sprintf("Another svcd (%s) took turns, %d each.\n", r.w.otherSvcd, turns)
	}
	return text + "\n" + r.w.rates(append(floors, served...)), nil
}

// besideCommits lets bare commits, uploads and retrievals take turns on SQLite and a folder.
func (r *serviceReport) besideCommits() (string, error) {
	b, err := r.w.onSQLite()
	if err != nil {
		return "", err
	}
	db, err := openFloorDatabase(r.w.path("turns.sqlite"))
	if err != nil {
		return "", err
	}
	defer db.Close()
	s, err := r.w.newService("svcd-turns", nil)
	if err != nil {
		return "", err
	}
	defer r.w.end(s.process)
	text := "| Bare commits a second | uploads of 4 KiB | of the commits | retrievals | of the commits |\n" +
		"|---:|---:|---:|---:|---:|\n"
	spent, err := watchCPU()
	if err != nil {
		return "", err
	}
	var first float64
	var saves, reads []float64
	for turn := range turns {
		progress("commits and svcd, turn %d", turn+1)
		rates, err := oneTurn(b, s, db)
		if err != nil {
			return "", err
		}
		if turn == 0 {
			first = rates[0]
		}
		saves, reads = append(saves, rates[1]/rates[0]), append(reads, rates[2]/rates[0])
		text += fmt.Sprintf("| %s | %s | %s | %s | %s |\n", short(rates[0]), short(rates[1]), short(saves[turn]),
			short(rates[2]), short(reads[turn]))
	}
	end, err := commitsOf(db, "?")
	if err != nil {
		return "", err
	}
	if apart(first, end) {
		r.busy = []string{targetSaves, targetReads}
	}
	text += fmt.Sprintf("\nBare commits at the end: %s a second. Where that is more than a quarter from those of the "+
		"first turn, the targets say *busy*: bare commits suffer more from other programs than svcd does.\n", short(end))
	r.needsOwn("those on SQLite and a folder", []crowdRun{{shares: spent()}})
	r.ratios[targetSaves], r.ratios[targetReads] = median(saves), median(reads)
	return text, nil
}

// apart reports whether two rates differ by more than a quarter of the larger one.
func apart(a, b float64) bool { return min(a, b) < 0.75*max(a, b) }

// oneTurn returns bare commits, uploads and retrievals a second.
func oneTurn(b backing, s *service, db *sql.DB) (rates [3]float64, err error) {
	if rates[0], err = commitsOf(db, "?"); err != nil {
		return rates, err
	}
	uploads, err := b.measure(s, func(s *service) (operation, error) { return s.uploader(smallBytes) })
	if err != nil {
		return rates, err
	}
	reads, err := b.measure(s, func(s *service) (operation, error) { return s.retriever(smallBytes) })
	rates[1], rates[2] = uploads.rate, reads.rate
	return rates, err
}

// Targets of a service of several processes, and of one on SQLite.
const (
	targetThree  = "three processes far from their stores, uploads of one's"
	targetBound  = "one process there, uploads of the bound"
	targetOther  = "one process beside its stores, uploads of the other svcd's"
	targetOthers = "three processes there, uploads of the other svcd's"
	targetLocks  = "sampled sessions of PostgreSQL that waited for a lock"
	targetHalf   = "from a save to the signed checkpoint that covers it, s: half of them"
	targetMost   = "the same: 99 of 100"
	targetSaves  = "uploads on SQLite and a folder, of bare commits"
	targetReads  = "retrievals there, of bare commits"
	targetTrips  = "a save, round trips to PostgreSQL"
	targetFetch  = "a retrieval, round trips to PostgreSQL"
)

func (r *serviceReport) targets() []target {
	of := func(text string, limit float64, most bool) target {
		return target{text, limit, most, func(*report) (float64, bool) {
			x, ok := r.ratios[text]
			return x, ok
		}}
	}
	list := []target{of(targetThree, 2.7, false), of(targetBound, 0.8, false)}
	if r.w.otherSvcd != "" {
		list = append(list, of(targetOther, 3, false), of(targetOthers, 3, false))
	}
	return append(list, of(targetLocks, 0, true), of(targetHalf, 0.3, true), of(targetMost, 1.5, true),
		of(targetSaves, 0.5, false), of(targetReads, 0.6, false), of(targetTrips, 2, true), of(targetFetch, 2, true))
}

// targetText is the table of targets, and which of them the machine limited.
func (r *serviceReport) targetText() string {
	text := (&report{}).targetTable(r.targets(), r.busy...)
	if len(r.limited) > 0 {
		text += "\nRatios that say more about the machine than about the service: " + strings.Join(r.limited, "; ") + ".\n"
	}
	return text
}

// needsOwn notes where others took much of the CPU.
func (r *serviceReport) needsOwn(what string, runs []crowdRun) {
	if others := medianOf(runs, func(r crowdRun) float64 { return r.others() }); others > idleEnough {
		r.limited = append(r.limited, fmt.Sprintf("%s (other programs took %.0f %% of the CPU)", what, 100*others))
	}
}

// needsIdle is needsOwn, and notes also where too little CPU was idle.
func (r *serviceReport) needsIdle(what string, runs []crowdRun) {
	before := len(r.limited)
	r.needsOwn(what, runs)
	if idle := medianOf(runs, idleOf); len(r.limited) == before && idle < idleEnough {
		r.limited = append(r.limited, fmt.Sprintf("%s (%.0f %% of the CPU was idle)", what, 100*idle))
	}
}
