package cache

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is what the cache ought to be, for one caller at a time.
type model struct {
	s       *Store
	budget  int64
	made    []*fake
	order   []*item // the cached ones, least recently used first
	leases  []leased
	pending []*pending
}

type item struct {
	key    Key
	buf    *fake
	leases int
}

type leased struct {
	lease *Lease
	item  *item
}

// pending is a load that ends when the test says so, whatever its context says.
type pending struct {
	key      Key
	load     *load
	result   chan fetched
	waiters  []*waiter
	purged   bool
	joinable bool
}

type fetched struct {
	buf *fake
	err error
}

type waiter struct {
	leave context.CancelFunc
	done  chan struct{}
	lease *Lease
	err   error
}

var errBroken = errors.New("broken")

func (m *model) find(k Key) *item {
	for _, it := range m.order {
		if it.key == k {
			return it
		}
	}
	return nil
}

func (m *model) loading(k Key) *pending {
	for _, p := range m.pending {
		if p.key == k && p.joinable {
			return p
		}
	}
	return nil
}

func (m *model) use(it *item) {
	m.order = append(slices.DeleteFunc(m.order, func(x *item) bool { return x == it }), it)
}

// settle stores b under k unless something is there, and leases it n times.
func (m *model) settle(k Key, b *fake, n int) *item {
	it := m.find(k)
	if it == nil {
		it = &item{key: k, buf: b}
	}
	it.leases += n
	m.use(it)
	m.evict()
	return it
}

func (m *model) bytes() (sum int64) {
	for _, it := range m.order {
		sum += it.buf.Footprint()
	}
	return sum
}

func (m *model) evict() {
	for range len(m.order) {
		if m.bytes() <= m.budget {
			return
		}
		oldest := m.order[0]
		m.order = m.order[1:]
		if oldest.leases > 0 {
			m.order = append(m.order, oldest)
		}
	}
}

func (m *model) newBuf(t *rapid.T) *fake {
	b := &fake{data: slices.Repeat([]byte{byte(len(m.made)%255 + 1)}, rapid.IntRange(0, 12).Draw(t, "size"))}
	m.made = append(m.made, b)
	return b
}

func drawKey(t *rapid.T) Key {
	return Key{Group: rapid.SampledFrom([]string{"g", "h"}).Draw(t, "group"),
		Ref: rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "ref")}
}

func (m *model) hold(t *rapid.T, l *Lease, it *item) {
	if l.entry.buf != Buffer(it.buf) {
		t.Fatalf("leased other content than that of %v", it.key)
	}
	m.leases = append(m.leases, leased{l, it})
}

// get asks for a key that nobody loads at the moment.
func (m *model) get(t *rapid.T) {
	k := drawKey(t)
	if m.loading(k) != nil {
		t.Skip("it loads")
	}
	it := m.find(k)
	var b *fake
	l, err := m.s.Get(context.Background(), k, func(context.Context, *Room) (Buffer, error) {
		if rapid.IntRange(0, 4).Draw(t, "broken") == 0 {
			return nil, errBroken
		}
		b = m.newBuf(t)
		return b, nil
	})
	switch {
	case it == nil && b == nil:
		if !errors.Is(err, errBroken) {
			t.Fatalf("a failed load gives %v", err)
		}
		return
	case err != nil || it != nil && b != nil:
		t.Fatalf("got %v, loaded what is cached: %v", err, b != nil)
	}
	m.hold(t, l, m.settleGet(k, it, b))
}

// settleGet is settle, but a hit does not evict.
func (m *model) settleGet(k Key, it *item, b *fake) *item {
	if it == nil {
		return m.settle(k, b, 1)
	}
	it.leases++
	m.use(it)
	return it
}

func (m *model) add(t *rapid.T) {
	k, b := drawKey(t), m.newBuf(t)
	l := m.s.Add(k, b)
	m.hold(t, l, m.settle(k, b, 1))
}

func (m *model) lookup(t *rapid.T) {
	k := drawKey(t)
	it := m.find(k)
	l, ok := m.s.Lookup(k)
	if ok != (it != nil) {
		t.Fatalf("found %v: %v", k, ok)
	}
	if ok {
		m.hold(t, l, m.settleGet(k, it, nil))
	}
}

func (m *model) release(t *rapid.T) {
	if len(m.leases) == 0 {
		t.Skip("no lease")
	}
	i := rapid.IntRange(0, len(m.leases)-1).Draw(t, "lease")
	l := m.leases[i]
	m.leases = slices.Delete(m.leases, i, i+1)
	l.lease.Release()
	l.lease.Release() // once more does nothing
	l.item.leases--
	if l.item.leases == 0 {
		m.evict()
	}
}

func (m *model) purge(t *rapid.T) {
	group := rapid.SampledFrom([]string{"g", "h"}).Draw(t, "group")
	before := len(m.order)
	m.order = slices.DeleteFunc(m.order, func(it *item) bool { return it.key.Group == group })
	for _, p := range m.pending {
		if p.key.Group == group {
			p.purged, p.joinable = true, false
		}
	}
	if n := m.s.Purge(func(k Key) bool { return k.Group == group }); n != before-len(m.order) {
		t.Fatalf("purged %d, want %d", n, before-len(m.order))
	}
}

// wait begins a load or joins one.
func (m *model) wait(t *rapid.T) {
	k := drawKey(t)
	if m.find(k) != nil {
		t.Skip("it is cached")
	}
	p := m.loading(k)
	entered := make(chan struct{})
	if p == nil {
		p = &pending{key: k, result: make(chan fetched, 1), joinable: true}
		m.pending = append(m.pending, p)
	} else {
		close(entered)
	}
	ctx, leave := context.WithCancel(context.Background())
	w := &waiter{leave: leave, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.lease, w.err = m.s.Get(ctx, k, func(context.Context, *Room) (Buffer, error) {
			close(entered)
			r := <-p.result
			if r.err != nil {
				return nil, r.err
			}
			return r.buf, nil
		})
	}()
	<-entered
	p.waiters = append(p.waiters, w)
	for m.s.waiting(k) < len(p.waiters) {
		time.Sleep(time.Microsecond)
	}
	m.s.mu.Lock()
	p.load = m.s.loads[k]
	m.s.mu.Unlock()
}

func (m *model) drawPending(t *rapid.T) *pending {
	if len(m.pending) == 0 {
		t.Skip("no load")
	}
	return rapid.SampledFrom(m.pending).Draw(t, "load")
}

func (m *model) leave(t *rapid.T) {
	p := m.drawPending(t)
	if len(p.waiters) == 0 {
		t.Skip("nobody waits")
	}
	w := p.waiters[0]
	p.waiters = p.waiters[1:]
	w.leave()
	<-w.done
	if !errors.Is(w.err, context.Canceled) {
		t.Fatalf("who leaves gets %v", w.err)
	}
	if len(p.waiters) == 0 {
		p.joinable = false
	}
}

func (m *model) end(t *rapid.T) {
	p := m.drawPending(t)
	var r fetched
	if rapid.IntRange(0, 4).Draw(t, "broken") == 0 {
		r.err = errBroken
	} else {
		r.buf = m.newBuf(t)
	}
	m.finish(t, p, r)
}

func (m *model) finish(t *rapid.T, p *pending, r fetched) {
	m.pending = slices.DeleteFunc(m.pending, func(x *pending) bool { return x == p })
	p.result <- r
	<-p.load.done
	want := r.err
	if p.purged {
		want = ErrPurged
	}
	var it *item
	if want == nil {
		it = m.settle(p.key, r.buf, len(p.waiters))
	}
	for _, w := range p.waiters {
		<-w.done
		w.leave()
		if !errors.Is(w.err, want) {
			t.Fatalf("a waiter got %v, want %v", w.err, want)
		}
		if want == nil {
			m.hold(t, w.lease, it)
		}
	}
}

// check compares the cache with the model.
func (m *model) check(t *rapid.T) {
	m.s.mu.Lock()
	keys := m.s.recency.Keys()
	m.s.mu.Unlock()
	want := make([]Key, len(m.order))
	alive := make(map[*fake]bool)
	for i, it := range m.order {
		want[i] = it.key
		alive[it.buf] = true
	}
	if !slices.Equal(keys, want) {
		t.Fatalf("cached are %v, want %v", keys, want)
	}
	if st := m.s.Stats(); st.Bytes != m.bytes() || st.Entries != len(m.order) {
		t.Fatalf("%d bytes in %d entries, want %d in %d", st.Bytes, st.Entries, m.bytes(), len(m.order))
	}
	for i, b := range m.made {
		if n := b.wiped.Load(); alive[b] && n != 0 || !alive[b] && n != 1 {
			t.Fatalf("content %d, cached: %v, was wiped %d times", i, alive[b], n)
		}
	}
	for _, l := range m.leases {
		p := make([]byte, 20)
		n, err := l.lease.ReadAt(p, 0)
		if alive[l.item.buf] {
			if err != nil || !slices.Equal(p[:n], l.item.buf.data) || l.lease.Len() != int64(n) {
				t.Fatalf("a lease of %v reads %d bytes, %v", l.item.key, n, err)
			}
		} else if !errors.Is(err, ErrPurged) {
			t.Fatalf("a purged lease of %v reads %d bytes, %v", l.item.key, n, err)
		}
	}
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.Int64Range(0, 30).Draw(t, "budget")
		m := &model{s: New(budget), budget: budget}
		defer func() {
			for _, p := range m.pending {
				p.result <- fetched{err: errBroken}
				<-p.load.done
				for _, w := range p.waiters {
					<-w.done
					w.leave()
				}
			}
			m.s.Close()
			for i, b := range m.made {
				if n := b.wiped.Load(); n != 1 {
					t.Errorf("at the end content %d was wiped %d times", i, n)
				}
			}
		}()
		t.Repeat(map[string]func(*rapid.T){
			"": m.check, "get": m.get, "add": m.add, "lookup": m.lookup, "release": m.release,
			"purge": m.purge, "wait": m.wait, "leave": m.leave, "end": m.end,
		})
	})
}
