// Package line is a slow or faulty line to a server, for tests and the benchmark: a
// proxy with a delay, a rate each way, cut connections and silence. All connections share
// the line, as they share a real one. The line knows no slow start and loses no packets. It
// imports nothing of ours.
//
// toxiproxy does not serve: its rate is that of each connection, so eight connections would
// be eight times as fast as one, and it lets connections be made without a delay.
package line

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Shape is what a line is like. The zero value is as fast as the machine.
type Shape struct {
	RoundTrip time.Duration // half of it each way; a new connection costs one more
	Up, Down  int64         // bytes a second to the server, and from it; 0 = unlimited
}

const (
	// ahead is how much of a lane may be taken before it is free, like the queue of a router:
	// a reader that wakes up late loses none of the rate.
	ahead = 20 * time.Millisecond
	// mostChunk bounds what is read at a time, in bytes. A slow lane has smaller ones, of
	// 5 ms, but no smaller than leastChunk: connections take turns.
	mostChunk  = 64 << 10
	leastChunk = 1460
	// buffered is what the kernel holds before the line, in bytes, at either end: the sender
	// feels how fast the line is.
	buffered = 64 << 10
	// queued is how many chunks of a connection may be under way.
	queued = 128
)

// Line is a proxy. Its methods may be called at any time, by any goroutine.
type Line struct {
	addr string
	dial func() (net.Conn, error)
	half time.Duration // of the round trip
	up   lane
	down lane
	nap  func(time.Duration) // for the last part of a delay; nil: a timer is exact

	life           context.Context
	close          context.CancelFunc
	turns, watches atomic.Int64
	made           atomic.Int64

	mu       sync.Mutex
	listener net.Listener
	pairs    []*pair
	refuses  bool
	portal   string        // what answers in place of the server; "" = nothing does
	held     chan struct{} // closed when nothing is held any more; nil: nothing is held
	each     int64         // mean distance of cuts, in bytes; 0 = none
	left     int
	after    int64 // the next cut, in bytes of both ways
	cuts     int
}

// New starts a line from a free port of the loopback interface to a server, given as host
// and port.
func New(server string, shape Shape) (*Line, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := newLine(func() (net.Conn, error) { return net.Dial("tcp", server) }, shape)
	l.nap = nap
	l.addr, l.listener = listener.Addr().String(), listener
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go l.serve(c)
		}
	}()
	return l, nil
}

func newLine(dial func() (net.Conn, error), shape Shape) *Line {
	l := &Line{dial: dial, half: shape.RoundTrip / 2, up: lane{rate: shape.Up}, down: lane{rate: shape.Down}}
	l.life, l.close = context.WithCancel(context.Background())
	return l
}

// coarse is how late a timer of Go may be. What is left of a delay then is slept in the kernel.
const coarse = 1500 * time.Microsecond

func nap(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // interrupted: early by less than coarse
}

// Addr is the host and port that clients connect to.
func (l *Line) Addr() string { return l.addr }

// Close ends the line and its connections.
func (l *Line) Close() {
	l.close()
	if l.listener != nil {
		_ = l.listener.Close()
	}
	l.Cut()
}

// Moved is what a line has carried since it began.
type Moved struct {
	Up, Down    int64 // bytes that clients sent, and that they got; without headers of TCP
	Turns       int64 // how often a client began to send after an answer: requests, where clients wait for answers
	Watches     int64 // Turns that wait for events: how many there are depends on how long the work takes
	Connections int64
	Cuts        int
}

// Moved returns what the line has carried so far.
func (l *Line) Moved() Moved {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Moved{l.up.moved.Load(), l.down.moved.Load(), l.turns.Load(), l.watches.Load(), l.made.Load(), l.cuts}
}

// Cut resets all connections.
func (l *Line) Cut() {
	l.mu.Lock()
	pairs := slices.Clone(l.pairs)
	l.mu.Unlock()
	for _, p := range pairs {
		p.reset()
	}
}

// CutEvery resets a connection so many times, at random bytes, a mean distance apart: in the
// middle of what is sent, before the answer to it, or before it. 0 bytes end that.
func (l *Line) CutEvery(bytes int64, times int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.each, l.left = bytes, times
	l.next()
}

func (l *Line) next() {
	if l.each > 0 {
		l.after = l.up.moved.Load() + l.down.moved.Load() + rand.Int64N(2*l.each*9/10)
	}
}

func (l *Line) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.each == 0 || l.left == 0 || l.up.moved.Load()+l.down.moved.Load() < l.after {
		return false
	}
	l.left--
	l.cuts++
	l.next()
	return true
}

// Refuse resets each new connection, until it is told otherwise.
func (l *Line) Refuse(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuses = on
}

// Hold stops all bytes, also those of new connections, until it is told otherwise. Then they
// go on.
func (l *Line) Hold(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if on == (l.held != nil) {
		return
	}
	if on {
		l.held = make(chan struct{})
		return
	}
	close(l.held)
	l.held = nil
}

// Intercept cuts all connections, and gives each new one this answer of HTTP, whatever it asks, until it is told
// "": so does a network that wants a sign-in.
func (l *Line) Intercept(answer string) {
	l.mu.Lock()
	l.portal = answer
	l.mu.Unlock()
	l.Cut()
}

// intercept answers a client once it has asked, and takes no more of it.
func (p *pair) intercept(answer string) {
	if _, err := http.ReadRequest(bufio.NewReader(p.client)); err != nil || p.sleep(2*p.l.half) != nil {
		return
	}
	if _, err := io.WriteString(p.client, answer); err != nil {
		return
	}
	if tcp, ok := p.client.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, p.client) // a reset would overtake the answer
}

// Forget makes the connections of now silent for ever, as when the address of the client
// changed: nobody is told. New connections work.
func (l *Line) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.pairs {
		p.silent.Store(true)
	}
}

// pair is a connection: both ends of it.
type pair struct {
	l              *Line
	client, server net.Conn // server is nil before it was reached; guarded by l.mu
	life           context.Context
	end            context.CancelFunc
	answered       atomic.Bool // the client has an answer to all it sent
	silent         atomic.Bool
}

func (l *Line) serve(client net.Conn) {
	holdLittle(client)
	p := &pair{l: l, client: client}
	p.life, p.end = context.WithCancel(l.life)
	p.answered.Store(true)
	l.mu.Lock()
	refused, portal := l.refuses, l.portal
	l.pairs = append(l.pairs, p)
	l.mu.Unlock()
	defer func() {
		p.reset() // without effect on what has ended in order
		l.mu.Lock()
		defer l.mu.Unlock()
		l.pairs = slices.DeleteFunc(l.pairs, func(o *pair) bool { return o == p })
	}()
	if refused || p.sleep(2*l.half) != nil { // the client may send once it is answered
		return
	}
	l.made.Add(1)
	if portal != "" {
		p.intercept(portal)
		return
	}
	up, down := make(chan chunk, queued), make(chan chunk, queued)
	var both sync.WaitGroup
	both.Go(func() { p.read(client, &l.up, up) })
	defer both.Wait()
	if p.sleep(l.half) != nil { // the server sees the connection
		return
	}
	server, err := l.dial()
	if err != nil {
		p.reset()
		return
	}
	holdLittle(server)
	l.mu.Lock()
	p.server = server
	l.mu.Unlock()
	both.Go(func() { p.write(server, &l.up, up) })
	both.Go(func() { p.read(server, &l.down, down) })
	both.Go(func() { p.write(client, &l.down, down) })
	both.Wait()
}

func holdLittle(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(buffered)
	}
}

// sleep waits, and as long as the line holds everything.
func (p *pair) sleep(d time.Duration) error {
	due, fine := time.Now().Add(d), time.Duration(0)
	if p.l.nap != nil {
		fine = coarse
	}
	if d > fine {
		timer := time.NewTimer(d - fine)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.life.Done():
		}
	}
	if left := time.Until(due); left > 0 && p.l.nap != nil {
		p.l.nap(min(left, coarse))
	}
	p.l.mu.Lock()
	held := p.l.held
	p.l.mu.Unlock()
	if p.silent.Load() {
		<-p.life.Done()
	}
	if held != nil {
		select {
		case <-held:
		case <-p.life.Done():
		}
	}
	return p.life.Err()
}

// reset ends both connections without a word of good-bye.
func (p *pair) reset() {
	p.end()
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	for _, c := range []net.Conn{p.client, p.server} {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		if c != nil {
			_ = c.Close()
		}
	}
}

// chunk is what is under way. One without bytes is the end, after last.
type chunk struct {
	bytes []byte
	due   time.Time
	cut   bool // both connections break after it
}

// read takes what one end sends and puts it on its way.
func (p *pair) read(from net.Conn, lane *lane, way chan<- chunk) {
	defer close(way)
	buf := make([]byte, lane.chunk())
	for {
		n, err := from.Read(buf)
		if err != nil && err != io.EOF {
			p.reset()
			return
		}
		if lane == &p.l.up && n > 0 {
			if p.answered.Swap(false) {
				p.l.turns.Add(1)
				if bytes.HasPrefix(buf[:n], []byte("POST /tools/watch ")) {
					p.l.watches.Add(1)
				}
			}
			lane.moved.Add(int64(n))
		}
		c, leaves := chunk{bytes: slices.Clone(buf[:n])}, lane.take(n)
		c.due = leaves.Add(p.l.half)
		if c.cut = n > 0 && p.l.isCut(); c.cut {
			switch rand.IntN(3) {
			case 0: // in the middle of what came
				c.bytes = c.bytes[:rand.IntN(n)]
			case 1: // what came arrives, and its answer does not
				p.l.mu.Lock()
				_ = p.client.Close()
				p.l.mu.Unlock()
			case 2:
				c.bytes = nil
			}
		}
		select {
		case way <- c:
		case <-p.life.Done():
			return
		}
		if n == 0 || c.cut || p.sleep(time.Until(leaves)-ahead) != nil {
			return
		}
	}
}

// write gives the other end what is due.
func (p *pair) write(to net.Conn, lane *lane, way <-chan chunk) {
	for c := range way {
		if p.sleep(time.Until(c.due)) != nil {
			return
		}
		if len(c.bytes) > 0 {
			if lane == &p.l.down { // first: who has the bytes may ask
				lane.moved.Add(int64(len(c.bytes)))
			}
			if _, err := to.Write(c.bytes); err != nil {
				p.reset()
				return
			}
		}
		if c.cut {
			p.reset()
			return
		}
		if lane == &p.l.down {
			p.answered.Store(true)
		}
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// lane is one way of a line.
type lane struct {
	rate  int64 // bytes a second; 0 = unlimited
	moved atomic.Int64

	mu   sync.Mutex
	free time.Time // when it has carried all that was taken
}

// take reserves the lane for n bytes and returns when the last of them leaves.
func (l *lane) take(n int) time.Time {
	now := time.Now()
	if l.rate == 0 {
		return now
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(float64(n) / float64(l.rate) * float64(time.Second)))
	return l.free
}

func (l *lane) chunk() int64 {
	if l.rate == 0 {
		return mostChunk
	}
	return min(mostChunk, max(leastChunk, l.rate/200))
}
