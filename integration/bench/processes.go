package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/svcfs/svcfs/integration/line"
	"github.com/svcfs/svcfs/sdk"
)

const (
	mostProcesses = 3
	// farTrip is the round trip that is put between svcd and its stores: waiting shows, which two cores hide.
	farTrip = 10 * time.Millisecond
	// crowdLasting is how long a crowd uploads.
	crowdLasting = 6 * time.Second
)

// crowdSizes are how many clients each process has: the first, unless the machine is the limit then.
func crowdSizes() []int { return []int{24, 8, 4} }

// deployment is a build of svcd over stores of its own. Its members have an account and a group each.
type deployment struct {
	w       *world
	program string
	name    string
	b       backing
	stores  []string // its --db and --blobs flags
	members []member
	files   atomic.Int64 // uploaded so far
	seen    *sessions    // of PostgreSQL, while crowds upload
}

type member struct {
	account, key string
	group        sdk.GroupID
}

// deploy makes empty stores and members.
func (w *world) deploy(b backing, program, name string) (*deployment, error) {
	progress("accounts of %s", name)
	stores, err := b.stores()
	if err != nil {
		return nil, err
	}
	d := &deployment{w: w, program: program, name: name, b: b, stores: stores, seen: newSessions(),
		members: make([]member, mostProcesses*slices.Max(crowdSizes()))}
	s, err := w.serveAt(program, d.process(1), b.env, stores...)
	if err != nil {
		return nil, err
	}
	defer w.end(s.process)
	return d, inParallel(4, len(d.members), func(i int) error {
		account, key, err := s.newAccount(fmt.Sprintf("member%d", i), b.env, stores)
		if err != nil {
			return err
		}
		c, err := s.clientOf(account, key)
		if err != nil {
			return err
		}
		d.members[i] = member{account, key, sdk.GroupID(fmt.Sprintf("own-%d", i))}
		_, err = c.Group(d.members[i].group).Register(context.Background())
		return err
	})
}

func (d *deployment) process(i int) string { return fmt.Sprintf("%s-%d", d.name, i) }

// running is some processes of a deployment, and clients that are spread over them.
type running struct {
	d        *deployment
	services []*service
	clients  []*sdk.Client // of the members, in their order
	database *line.Line    // to PostgreSQL; nil = it is near
	stores   []string      // flags, through lines
	lines    []*line.Line
}

// start starts n processes, trip away from their stores, with so many clients each, which have uploaded once.
func (d *deployment) start(n, each int, trip time.Duration) (c *running, err error) {
	c = &running{d: d, stores: d.stores}
	defer func() {
		if err != nil {
			c.end()
		}
	}()
	if err := c.reach(trip); err != nil {
		return c, err
	}
	for i := 1; i <= n; i++ {
		if _, err := os.Stat(d.w.path(d.process(i))); err != nil {
			if err := copyMaster(d.w.path(d.process(1)), d.w.path(d.process(i))); err != nil {
				return c, err
			}
		}
		s, err := d.w.serveAt(d.program, d.process(i), d.b.env, c.stores...)
		if err != nil {
			return c, err
		}
		c.services = append(c.services, s)
	}
	for i := range n * each {
		client, err := c.services[i%n].clientOf(d.members[i].account, d.members[i].key)
		if err != nil {
			return c, err
		}
		c.clients = append(c.clients, client)
	}
	return c, inParallel(len(c.clients), len(c.clients), func(i int) error {
		_, err := c.upload(i)
		return err
	})
}

// reach puts lines before the stores.
func (c *running) reach(trip time.Duration) error {
	if trip == 0 {
		return nil
	}
	var pairs []string
	for _, host := range c.d.b.hosts {
		l, err := line.New(host, line.Shape{RoundTrip: trip})
		if err != nil {
			return err
		}
		c.lines, pairs = append(c.lines, l), append(pairs, host, l.Addr())
	}
	c.database, c.stores = c.lines[0], nil
	for _, flag := range c.d.stores {
		c.stores = append(c.stores, strings.NewReplacer(pairs...).Replace(flag))
	}
	return nil
}

func (c *running) end() {
	for _, s := range c.services {
		c.d.w.end(s.process)
	}
	for _, l := range c.lines {
		l.Close()
	}
}

// upload lets client i upload a file to its own group.
func (c *running) upload(i int) (sdk.Receipt, error) {
	n := c.d.files.Add(1)
	return c.clients[i].Group(c.d.members[i].group).Put(context.Background(), fmt.Sprintf("file-%d", n),
		bytes.NewReader(fmt.Appendf(nil, "%0*d", smallBytes, n)))
}

// turns returns how often a process began to send to PostgreSQL after an answer.
func (c *running) turns() int64 {
	if c.database == nil {
		return 0
	}
	return c.database.Moved().Turns
}

// crowdRun is what clients reached that upload as fast as they can.
type crowdRun struct {
	rate  float64 // uploads a second
	cpu   float64 // of all processes of svcd, milliseconds each
	trips float64 // round trips to PostgreSQL each; 0 = not counted
	shares
}

// run lets n processes with so many clients each record uploads for a while.
func (d *deployment) run(n, each int, trip time.Duration) (r crowdRun, err error) {
	progress("%s: %d processes with %d clients each", d.name, n, each)
	c, err := d.start(n, each, trip)
	if err != nil {
		return r, err
	}
	defer c.end()
	spent, err := watchCPU()
	if err != nil {
		return r, err
	}
	stop, err := d.seen.watch(d.stores[1])
	if err != nil {
		return r, err
	}
	var done atomic.Int64
	cpu, before, begin := cpuOfAll(c.services), c.turns(), time.Now()
	err = inParallel(len(c.clients), len(c.clients), func(i int) error {
		for time.Since(begin) < crowdLasting {
			if _, err := c.upload(i); err != nil {
				return err
			}
			done.Add(1)
		}
		return nil
	})
	took, uploads := time.Since(begin), float64(done.Load())
	r = crowdRun{rate: uploads / took.Seconds(), cpu: milliseconds(cpuOfAll(c.services)-cpu) / uploads,
		trips: float64(c.turns()-before) / uploads, shares: spent()}
	return r, errors.Join(err, stop())
}
