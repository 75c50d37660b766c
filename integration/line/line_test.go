package line

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// echo is a server behind a line, on connections in memory: with the clock of synctest all
// times are exact.
func echo(shape Shape) *Line {
	return newLine(func() (net.Conn, error) {
		here, there := net.Pipe()
		go func() { _, _ = io.Copy(there, there) }()
		return here, nil
	}, shape)
}

// connect is a client's end of a new connection.
func (l *Line) connect() net.Conn {
	client, here := net.Pipe()
	go l.serve(here)
	return client
}

// exchange sends bytes, waits for their echo, and returns how long that took.
func exchange(t *testing.T, c net.Conn, size int) time.Duration {
	t.Helper()
	begin := time.Now()
	sent, got := bytes.Repeat([]byte("svc"), size)[:size], make([]byte, size)
	go func() { _, _ = c.Write(sent) }()
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("the echo is another: %v", err)
	}
	return time.Since(begin)
}

func TestRoundTripsAndRates(t *testing.T) {
	for name, s := range map[string]Shape{
		"1 ms": {time.Millisecond, 12_500_000, 12_500_000}, "60 ms": {60 * time.Millisecond, 2_500_000, 12_500_000},
		"200 ms": {200 * time.Millisecond, 250_000, 2_500_000}, "unlimited": {RoundTrip: 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := echo(s)
				defer l.Close()
				c := l.connect()
				took := func(n int, rate int64) time.Duration {
					return time.Duration(
						float64(n) / float64(max(rate, 1)) * float64(time.Second) * float64(min(rate, 1)))
				}
				within := func(what string, got, want time.Duration, percent int64) {
					if diff := (got - want).Abs(); int64(diff)*100 > int64(want)*percent {
						t.Errorf("%s took %s, want %s", what, got, want)
					}
				}
				within("connecting and one byte", exchange(t, c, 1), 2*s.RoundTrip, 2)
				for range 10 {
					within("one byte", exchange(t, c, 1), s.RoundTrip, 2)
				}
				const size = 5_000_000
				slower := s.Up
				if slower == 0 {
					return
				}
				within("much", exchange(t, c, size), s.RoundTrip+took(size, slower), 2)
				if m := l.Moved(); m.Up != size+11 || m.Down != size+11 || m.Connections != 1 {
					t.Errorf("counted %+v", m)
				}
			})
		})
	}
}

// Eight connections share a line, and none waits for all of the others.
func TestConnectionsShareTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each, rate = 250_000, 1_000_000
		l := echo(Shape{60 * time.Millisecond, rate, rate})
		defer l.Close()
		var all sync.WaitGroup
		var once sync.Once
		begin := time.Now()
		first := time.Duration(0)
		for range 8 {
			c := l.connect()
			all.Go(func() {
				exchange(t, c, each)
				once.Do(func() { first = time.Since(begin) })
			})
		}
		all.Wait()
		want := 2*time.Second + 120*time.Millisecond
		if took := time.Since(begin); (took-want).Abs() > want/20 || first < want*8/10 {
			t.Errorf("all took %s, want %s; the first was done after %s", took, want, first)
		}
	})
}

// A request of several chunks is one turn, whatever its answer.
func TestTurnsAreRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const request = 10_000
		l := newLine(func() (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				for buf := make([]byte, request); ; {
					if _, err := io.ReadFull(there, buf); err != nil {
						return
					}
					_, _ = there.Write(buf)
				}
			}()
			return here, nil
		}, Shape{RoundTrip: 10 * time.Millisecond, Up: 100_000})
		defer l.Close()
		a, b := l.connect(), l.connect()
		for range 5 {
			exchange(t, a, request)
			exchange(t, b, request)
		}
		if m := l.Moved(); m.Turns != 10 {
			t.Errorf("%d turns for 10 exchanges", m.Turns)
		}
	})
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := echo(Shape{RoundTrip: 20 * time.Millisecond})
		defer l.Close()
		c := l.connect()
		exchange(t, c, 10)
		l.Hold(true)
		time.AfterFunc(time.Minute, func() { l.Hold(false) })
		if took := exchange(t, c, 10); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("held for a minute, the echo took %s", took)
		}
		l.Cut()
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a connection that was cut answers")
		}
		l.Refuse(true)
		if _, err := l.connect().Read(make([]byte, 1)); err == nil {
			t.Error("a refused connection answers")
		}
		l.Refuse(false)
		c = l.connect()
		exchange(t, c, 10)
		l.Forget()
		go func() { _, _ = c.Write([]byte("lost")) }()
		_ = c.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := c.Read(make([]byte, 1)); !isTimeout(err) {
			t.Errorf("a forgotten connection: %v", err)
		}
		exchange(t, l.connect(), 10)
	})
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func TestCutsAtRandomBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := echo(Shape{})
		defer l.Close()
		l.CutEvery(100_000, 7)
		for tries := 0; l.Moved().Cuts < 7; tries++ {
			if tries > 100 {
				t.Fatalf("%+v", l.Moved())
			}
			c := l.connect()
			go func() { _, _ = io.Copy(c, io.LimitReader(endless{}, 300_000)) }()
			_, _ = io.CopyN(io.Discard, c, 300_000)
			_ = c.Close()
		}
		exchange(t, l.connect(), 1_000_000) // no cut is left
	})
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
