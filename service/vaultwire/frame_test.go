package vaultwire

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"
)

// one is a vault that wraps by giving back what it got.
type one struct {
	Vault
	asked, kept atomic.Int64
	took, gave  Secret // of the last question, and of the archive
}

func (o *one) Keep(_ context.Context, q Keep) (Kept, error) {
	o.kept.Add(int64(len(q.Rows)))
	return Kept{}, nil
}

func (o *one) Wrap(_ context.Context, q Wrap) (Wrapped, error) {
	o.asked.Add(1)
	o.took = q.Key
	if q.Root == 13 {
		panic("a mistake")
	}
	return Wrapped{bytes.Clone(q.Key)}, nil
}

func (o *one) Archive(context.Context, Nothing) (Archive, error) {
	o.gave = Secret("key")
	return Archive{Key: o.gave}, nil
}

// served is a client of a vault behind a socket, and what ends the vault.
func served(t *testing.T, v Vault, socket string) (c *Client, end func()) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, v) }()
	c = NewClient(socket, func(err error) error { return errors.Join(errAway, err) })
	return c, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

var errAway = errors.New("the vault is away")

// socketIn is a short path: that of a socket has 108 bytes at most.
func socketIn(t *testing.T) string {
	t.Helper()
	t.Chdir(t.TempDir())
	return "s"
}

// A vault that was restarted is called again over a new connection, one that is away is said to be, and who asks with a
// mistake loses the connection alone.
func TestClient(t *testing.T) {
	v, socket := &one{}, socketIn(t)
	c, end := served(t, v, socket)
	wrap := func(root int64) error {
		answer, err := c.Wrap(t.Context(), Wrap{Root: root, Key: []byte("key")})
		if err == nil && string(answer.Wrapped) != "key" {
			t.Errorf("answered %q", answer.Wrapped)
		}
		return err
	}
	if err := errors.Join(wrap(1), wrap(1)); err != nil || len(c.idle) != 1 {
		t.Errorf("%v, %d connections wait", err, len(c.idle))
	}
	if _, err := c.Keep(t.Context(), Keep{Rows: make([]Row, 3)}); err != nil || v.kept.Load() != 3 {
		t.Errorf("%v, %d rows", err, v.kept.Load())
	}
	if err := wrap(13); !errors.Is(err, errAway) {
		t.Errorf("a mistake of the vault: %v", err)
	}
	if err := wrap(1); err != nil {
		t.Errorf("after a mistake: %v", err)
	}
	end()
	if err := wrap(1); !errors.Is(err, errAway) {
		t.Errorf("without a vault: %v", err)
	}
	_, end = served(t, v, socket)
	defer end()
	if err := errors.Join(wrap(1), wrap(1)); err != nil || v.kept.Load() != 6 {
		t.Errorf("after a restart: %v, %d rows in all", err, v.kept.Load())
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// Where as many connections wait as the machine lets, the next one waits, too.
func TestClientWaitsForRoom(t *testing.T) {
	v, socket := &one{}, "@"+rand.Text()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err == nil {
		err = errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: socket}), syscall.Listen(fd, 1))
	}
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close()
	var waiting []net.Conn
	for err == nil {
		var conn net.Conn
		if conn, err = net.Dial("unix", socket); err == nil {
			waiting = append(waiting, conn)
		}
	}
	if !errors.Is(err, syscall.EAGAIN) {
		t.Fatal(err)
	}
	c := NewClient(socket, func(err error) error { return err })
	defer c.Close()
	wrap := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := c.Wrap(ctx, Wrap{Key: []byte("key")})
		return err
	}
	if err := wrap(20 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it did not wait: %v", err)
	}
	for _, conn := range waiting {
		_ = conn.Close()
	}
	l, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, v) }()
	err = wrap(time.Minute)
	cancel()
	if err := errors.Join(err, <-served); err != nil {
		t.Error(err)
	}
}

// The vault keeps no secret of a question that it answered, nor of the answer.
func TestThreat3QuestionsAreCleared(t *testing.T) {
	v := &one{}
	c, end := served(t, v, "@"+rand.Text())
	_, err := c.Wrap(t.Context(), Wrap{Key: Secret("key")})
	archive, other := c.Archive(t.Context(), Nothing{})
	if err := errors.Join(err, other, c.Close()); err != nil || string(archive.Key) != "key" {
		t.Fatal(archive.Key, err)
	}
	end()
	for what, secret := range map[string]Secret{"question": v.took, "answer": v.gave} {
		if !bytes.Equal(secret, make([]byte, 3)) {
			t.Errorf("the vault keeps the secret of the %s", what)
		}
	}
	key := func() Secret { return Secret("key") }
	for _, v := range []struct {
		secret Secret
		in     func(Secret) any
	}{{key(), func(s Secret) any { return Wrap{Key: s} }}, {key(), func(s Secret) any { return Kept{Tickets: s} }},
		{key(), func(s Secret) any { return Opened{s} }}, {key(), func(s Secret) any { return Archive{Key: s} }},
		{key(), func(s Secret) any { return Text{s} }}, {key(), func(s Secret) any { return OpenToken{Token: s} }}} {
		wipe(v.in(v.secret))
		if !bytes.Equal(v.secret, make([]byte, 3)) {
			t.Errorf("%T keeps its secret", v.in(nil))
		}
	}
}

// A svcvault of another version is named, and is asked nothing.
func TestVaultOfAnotherVersion(t *testing.T) {
	l, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			defer c.Close()
			_ = writeFrame(c, "", hello{protocol - 1, "x"})
			_, err = c.Read(make([]byte, 1))
		}
		asked <- err
		_ = l.Close()
	}()
	c := NewClient(l.Addr().String(), func(err error) error { return err })
	defer c.Close()
	if _, err := c.Forget(t.Context(), Forget{}); err == nil || !strings.Contains(err.Error(), "of another version") {
		t.Errorf("%v", err)
	}
	if err := <-asked; !errors.Is(err, io.EOF) {
		t.Errorf("it was asked: %v", err)
	}
}

// A caller that leaves does not wait for the vault.
func TestClientLeaves(t *testing.T) {
	socket := socketIn(t)
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // it answers nobody
	c := NewClient(socket, func(err error) error { return errors.Join(errAway, err) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Wrap(ctx, Wrap{}); !errors.Is(err, errAway) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// late is a connection whose caller leaves with the answer, and whose end comes late.
type late struct {
	net.Conn
	leave     func()
	let, came chan struct{}
}

func (l *late) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	l.leave()
	return n, err
}

func (l *late) SetDeadline(at time.Time) error {
	if at.Equal(time.Unix(1, 0)) {
		<-l.let
		defer close(l.came)
	}
	return l.Conn.SetDeadline(at)
}

// meanwhile is a vault during whose first question something else happens.
type meanwhile struct {
	one
	once sync.Once
	then func()
}

func (m *meanwhile) Wrap(ctx context.Context, q Wrap) (Wrapped, error) {
	m.once.Do(m.then)
	return m.one.Wrap(ctx, q)
}

// A caller that leaves as its answer comes does not end the question of the next one, which would be asked twice.
func TestClientLeavesNothingBehind(t *testing.T) {
	l := &late{let: make(chan struct{}), came: make(chan struct{})}
	v := &meanwhile{then: func() { close(l.let); <-l.came }}
	c, end := served(t, v, socketIn(t))
	defer end()
	defer c.Close()
	_, first := c.Archive(t.Context(), Nothing{})
	waits := <-c.idle
	l.Conn, waits.Conn = waits.Conn, l
	waits.r.Reset(l)
	c.idle <- waits
	ctx, cancel := context.WithCancel(t.Context())
	l.leave = cancel
	_, left := c.Archive(ctx, Nothing{})
	_, next := c.Wrap(t.Context(), Wrap{Key: []byte("key")})
	if err := errors.Join(first, left, next); err != nil || v.asked.Load() != 1 {
		t.Errorf("%v, asked %d times", err, v.asked.Load())
	}
}

// What is no frame ends its connection, and the next one is served.
func TestServeHostile(t *testing.T) {
	v, socket := &one{}, socketIn(t)
	c, end := served(t, v, socket)
	defer end()
	defer c.Close()
	var unknown, wrong bytes.Buffer
	for _, err := range []error{writeFrame(&unknown, "nothing", Wrap{}), writeFrame(&wrong, "wrap", "text")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, raw := range map[string][]byte{"no length": {0, 0, 0, 0}, "too long": {0xff, 0, 0, 0},
		"a name that is too long": {0, 0, 0, 2, 9, 'a'}, "broken off": {0, 0, 0, 9, 1},
		"no operation": unknown.Bytes(), "another shape": wrong.Bytes()} {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(raw); err != nil {
			t.Fatal(err)
		}
		_ = conn.(*net.UnixConn).CloseWrite()
		if _, _, err := readFrame(conn, nil); err != nil {
			t.Errorf("%s: it was not greeted: %v", name, err)
		}
		if answer, err := io.ReadAll(conn); err != nil || len(answer) > 0 {
			t.Errorf("%s: answered %q, %v", name, answer, err)
		}
		_ = conn.Close()
	}
	if _, err := c.Wrap(t.Context(), Wrap{Key: []byte("key")}); err != nil || v.asked.Load() != 1 {
		t.Errorf("%v, asked %d times", err, v.asked.Load())
	}
}

// Each error comes out of a frame as itself.
func TestKinds(t *testing.T) {
	for _, is := range kinds() {
		kind, f := kindOf(errors.Join(errors.New("before"), is))
		if err := errorOf(kind, f); !errors.Is(err, is) || err.Error() != "before\n"+is.Error() {
			t.Errorf("%v became %v", is, err)
		}
	}
	if err := errorOf(kindOf(errors.New("x"))); err.Error() != "x" {
		t.Error(err)
	}
	if err := errorOf("new", failure{}); !errors.Is(err, errFrame) {
		t.Error(err)
	}
}

func FuzzReadFrame(f *testing.F) {
	var good bytes.Buffer
	if err := writeFrame(&good, "wrap", Wrap{Root: 1, Key: []byte("key")}); err != nil {
		f.Fatal(err)
	}
	f.Add(good.Bytes())
	f.Add([]byte{0, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		name, body, err := readFrame(bytes.NewReader(raw), nil)
		if err != nil {
			return
		}
		if len(name)+len(body)+1 > MaxFrameBytes || len(name)+len(body)+5 > len(raw) {
			t.Errorf("%d bytes of name, %d of body, out of %d", len(name), len(body), len(raw))
		}
	})
}

// Threat 77: however many questions begin, and never end, a vault takes no more memory for them than it has: or it
// would be ended, and forget what it signed.
func TestThreat77QuestionsHaveBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := semaphore.NewWeighted(questionMemory)
		table := map[string]operation{"x": func(context.Context, Vault, []byte) (any, error) { return Nothing{}, nil }}
		connect := func() net.Conn {
			client, server := net.Pipe()
			go func() {
				serve(t.Context(), server, nil, table, memory)
				_ = server.Close()
			}()
			return client
		}
		var waiting []net.Conn
		for range 3 {
			c := connect()
			if _, err := c.Write(binary.BigEndian.AppendUint32(nil, MaxFrameBytes)); err != nil {
				t.Fatal(err)
			}
			waiting = append(waiting, c)
		}
		synctest.Wait()
		if memory.TryAcquire(questionMemory - MaxFrameBytes*questionCost + 1) {
			t.Error("a question that begins takes no memory")
		}
		for _, c := range waiting {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("a question that never ends: %v", err)
			}
		}
		if took := MaxFrameBytes * questionCost; took > questionMemory {
			t.Errorf("a question may take %d bytes", took)
		}
		c := connect()
		if err := writeFrame(c, "x", Nothing{}); err != nil {
			t.Error(err)
		}
		if _, _, err := readFrame(c, nil); err != nil {
			t.Error(err)
		}
		_ = c.Close()
		synctest.Wait()
		if !memory.TryAcquire(questionMemory) {
			t.Error("memory is held for questions that ended")
		}
	})
}

// Threat 77: no list in a question takes more memory than is set aside for its bytes.
func TestThreat77ListsHaveBoundedMemory(t *testing.T) {
	vault := reflect.TypeFor[Vault]()
	var look func(name string, of reflect.Type)
	look = func(name string, of reflect.Type) {
		switch of.Kind() {
		case reflect.Slice:
			_, isBounded := reflect.New(of).Interface().(json.Unmarshaler)
			// "0," may be an element, and a list that grows is there twice, the second time a quarter larger
			if took := of.Elem().Size() * 9 / 8; !isBounded && took > questionCost {
				t.Errorf("%s: %d bytes for each of the frame", name, took)
			}
			look(name, of.Elem())
		case reflect.Pointer:
			look(name, of.Elem())
		case reflect.Struct:
			for i := range of.NumField() {
				look(name+"."+of.Field(i).Name, of.Field(i).Type)
			}
		}
	}
	for i := range vault.NumMethod() {
		look(vault.Method(i).Name, vault.Method(i).Type.In(1))
	}
	for _, element := range []string{"{}", "0"} {
		raw := []byte(`{"Records":[` + element + strings.Repeat(","+element, MaxFrameBytes/(1+len(element))) + `]}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var q Follow
		if err := json.Unmarshal(raw, &q); err == nil {
			t.Errorf("%d records are taken", len(q.Records))
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > MaxFrameBytes*questionCost/4 {
			t.Errorf("a frame of %s takes %d bytes", element, took)
		}
	}
}
