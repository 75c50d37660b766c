package outbox

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// O2: over many lives of a log, each of which ends with a loss of power at any moment that takes any pages, on a disk
// that fails now and then, what was taken is there, whole and with its newest address, and what has ended is not.
func TestO2ManyLives(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 2))
		d := newMemDisk()
		type fact struct {
			begin, step int    // it is under way from begin on, and true from step on; step < 0 = perhaps for ever
			meta        string // "" = it is not there
		}
		facts := map[string][]fact{}
		last := 0
		for life := range 8 {
			s, items, err := openStore(d, false)
			if err != nil {
				t.Fatal(err)
			}
			there := map[string]string{}
			for _, c := range items {
				e, err := s.read(c.ID)
				if err != nil {
					t.Fatalf("seed %d, life %d: %s: %v", seed, life, c.ID, err)
				}
				there[c.ID] = string(e.meta)
			}
			for id, list := range facts {
				if !slices.ContainsFunc(list, func(f fact) bool { return f.meta == there[id] }) {
					t.Fatalf("seed %d, life %d: %s has %q, not one of %+v", seed, life, id, there[id], list)
				}
			}
			for id := range there {
				if _, known := facts[id]; !known {
					t.Fatalf("seed %d, life %d: %s", seed, life, id)
				}
			}
			for id := range facts {
				facts[id] = []fact{{meta: there[id]}}
			}
			fails := false
			d.fail = func(step diskStep) error {
				if fails && step.kind != "cut" && random.IntN(3) == 0 {
					return errDisk
				}
				return nil
			}
			unsure := map[string]bool{} // ends, and refused saves, that the next frame makes durable
			do := func(id, meta string, f func() error) {
				begin := len(d.steps)
				err := f()
				now := fact{begin, len(d.steps), meta}
				if err != nil {
					now.step = -1
				}
				facts[id] = append(facts[id], now)
			}
			settled := func() {
				for id := range unsure {
					facts[id] = append(facts[id], fact{len(d.steps), len(d.steps), ""})
				}
				clear(unsure)
			}
			for range 5 + random.IntN(25) {
				fails = random.IntN(5) == 0
				ids := slices.Sorted(maps.Keys(s.places))
				id := ""
				if len(ids) > 0 {
					id = ids[random.IntN(len(ids))]
				}
				switch kind := random.IntN(8); {
				case id == "" || kind < 3:
					last++
					e := newItem(fmt.Sprint(last))
					e.body = make([]byte, random.IntN(300))
					do(e.ID, string(e.meta), func() error {
						err := s.add(context.Background(), e)
						if err == nil {
							settled()
						}
						return err
					})
					if _, taken := s.places[e.ID]; !taken {
						unsure[e.ID] = true
					}
				case kind == 3:
					e := readdressed(t, s, id, fmt.Sprint("meta ", random.IntN(1000)))
					do(id, string(e.meta), func() error { return s.add(context.Background(), e) })
				case kind == 4:
					do(id, "", func() error { s.end(Clear{ID: id}, "ref"); return errDisk })
					unsure[id] = true
				case kind == 5:
					do(id, "", func() error { return s.forget(context.Background(), Clear{ID: id}) })
				case kind == 6: // clean, however little is waste
					if s.settle() != nil || len(s.later) > 0 { // what was recorded is not noted yet
						continue
					}
					settled()
					s.endTail()
					var list []*entry
					for id, p := range s.places {
						if p.in == s.segments[0] {
							e, err := s.read(id)
							if err != nil {
								t.Fatal(err)
							}
							list = append(list, &e)
						}
					}
					_ = s.write(list)
					s.trim()
				default:
					if s.settle() == nil && len(s.later) == 0 {
						settled()
					}
					if random.IntN(2) == 0 {
						s.tidy()
					}
				}
			}
			fails = false
			step := len(d.steps) - random.IntN(min(12, len(d.steps)+1))
			for id, list := range facts {
				at := 0 // the newest fact that is sure
				for i, f := range list {
					if f.step >= 0 && f.step <= step {
						at = i
					}
				}
				var may []fact
				for _, f := range list[at:] {
					if f.begin <= step {
						may = append(may, f)
					}
				}
				if list[0].step > step || list[0].step < 0 { // it was not there at first
					may = append(may, fact{})
				}
				facts[id] = may
			}
			d = d.after(step, loss{random.IntN(6) - 2, random.IntN(6000) - 1, random.Uint64()})
		}
	}
}
