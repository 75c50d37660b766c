package store_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/svcfs/svcfs/service/store"
)

// TestThreat39MachineGoneWhileItWrites: the machine of one process loses power in a
// transaction, and PostgreSQL does not notice. The other processes get their turn
// nevertheless.
func TestThreat39MachineGoneWhileItWrites(t *testing.T) {
	ours := besideLost(t, func(lost *store.Store, lose func()) {
		_ = lost.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), "INSERT INTO meta (name, value) VALUES ('a', 'lost')")
			lose()
			return err
		})
	})
	if err := set(t.Context(), ours, "a", "ours"); err != nil {
		t.Errorf("the other process: %v", err)
	}
	if got := get(t, ours, "a"); got != "ours" {
		t.Errorf("value %q", got)
	}
}

// The machine of the process that takes a lease loses power in that transaction. Another process gets the lease.
func TestMachineGoneWhileItTakesALease(t *testing.T) {
	take := func(s *store.Store, holder string, then func()) error {
		return s.Beside(t.Context(), func(tx *store.Tx) error {
			defer then()
			fence, err := store.Lease(t.Context(), tx, "work", holder, time.Minute)
			if fence != 1 {
				t.Errorf("%s got fence %d", holder, fence)
			}
			return err
		})
	}
	ours := besideLost(t, func(lost *store.Store, lose func()) { _ = take(lost, "lost", lose) })
	if err := take(ours, "ours", func() {}); err != nil {
		t.Errorf("the other process: %v", err)
	}
}

// besideLost returns the database as a process has it once the machine of another one, which works meanwhile, is lost:
// work calls lose in its transaction.
func besideLost(t *testing.T, work func(lost *store.Store, lose func())) (ours *store.Store) {
	t.Helper()
	direct := postgres.NewDatabase(t)
	ours = open(t, func() (*store.Store, error) { return store.Open(t.Context(), "", direct) })
	freeze, address := freezable(t, direct)
	lost, err := store.Open(t.Context(), "", address)
	if err != nil {
		t.Fatal(err)
	}
	lost.SetWriteTimeout(time.Second)
	gone, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		work(lost, func() { freeze(); close(gone) })
		_ = lost.Close()
	}()
	t.Cleanup(func() { <-over })
	<-gone
	return ours
}

// The server ends every writing transaction whose process is silent for too long.
func TestSilentWritersAreEnded(t *testing.T) {
	s := onPostgres(t)
	look := func(tx *store.Tx) error {
		var limit string
		err := tx.QueryRowContext(t.Context(), "SELECT current_setting('idle_in_transaction_session_timeout')").
			Scan(&limit)
		if limit == "0" || limit == "" {
			t.Errorf("the limit is %q", limit)
		}
		return err
	}
	for how, err := range map[string]error{"write": s.Write(t.Context(), store.Everything(), look),
		"beside": s.Beside(t.Context(), look), "load": s.Load(t.Context(), look)} {
		if err != nil {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// freezable is a proxy that can stop passing anything on.
func freezable(t *testing.T, database string) (freeze func(), address string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	target := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u.Host = l.Addr().String()
	var mu sync.Mutex
	frozen := false
	var conns []net.Conn
	var all sync.WaitGroup
	pass := func(to, from net.Conn) {
		buf := make([]byte, 64<<10)
		for {
			n, err := from.Read(buf)
			mu.Lock()
			stopped := frozen
			mu.Unlock()
			if err != nil || stopped {
				return // and neither side notices
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			mu.Lock()
			conns = append(conns, client, server)
			mu.Unlock()
			all.Go(func() { pass(server, client) })
			all.Go(func() { pass(client, server) })
		}
	})
	t.Cleanup(func() {
		closers := []io.Closer{l}
		mu.Lock()
		for _, c := range conns {
			closers = append(closers, c)
		}
		mu.Unlock()
		for _, c := range closers {
			_ = c.Close()
		}
		all.Wait()
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		frozen = true
	}, u.String()
}
