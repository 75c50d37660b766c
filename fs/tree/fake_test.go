package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/svcfs/svcfs/fs/tree/treetest"
	"github.com/svcfs/svcfs/sdk"
)

type world = treetest.World

// mounted is a tree with what tests do to it all the time.
type mounted struct {
	*Tree
	t testing.TB
	w *world
}

func mount(t testing.TB, w *world, who sdk.AccountID, change ...func(*Config)) *mounted {
	t.Helper()
	cfg := Config{Remote: remote{w.As(who)}, RefreshInterval: time.Hour, EmptyDelay: time.Hour, MaxFileBytes: 64 << 20, reopen: -1,
		WholeBytes: w.BlocksAbove, BlockBytes: cmp.Or(w.BlockBytes, treetest.DefaultBlock), partBlocks: treetest.PartBlocks}
	return &mounted{grow(t, cfg, change), t, w}
}

// remote is an account's view of the world with its files of format version 2.
type remote struct{ treetest.Person }

func (r remote) OpenBlocks(ctx context.Context, e sdk.Entry, ahead ...int64) (Blocks, error) {
	b, err := r.Person.OpenBlocks(ctx, e, ahead...)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (r remote) BeginBlocks(ctx context.Context, g sdk.GroupID, base Blocks, blockBytes int64) (BlockUpload, error) {
	from, _ := base.(*treetest.Blocks)
	u, err := r.Person.BeginBlocks(ctx, g, from, blockBytes)
	if err != nil {
		return nil, err
	}
	return remoteUpload{u}, nil
}

type remoteUpload struct{ *treetest.BlockUpload }

func (u remoteUpload) Opened() Blocks {
	if b := u.BlockUpload.Opened(); b != nil {
		return b
	}
	return nil
}

// grow makes a tree that ends with the test.
func grow(t testing.TB, cfg Config, change []func(*Config)) *Tree {
	t.Helper()
	for _, c := range change {
		c(&cfg)
	}
	tree, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Close() })
	return tree
}

// last leaves out what a change answers.
func last[T any](_ T, err error) error { return err }

// ok ends the test unless a step of it went well.
func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (m *mounted) dir(p string) *Dir {
	m.t.Helper()
	d, ok := m.node(p).(*Dir)
	if !ok {
		m.t.Fatalf("%s is not a directory", p)
	}
	return d
}

func (m *mounted) node(p string) Node {
	m.t.Helper()
	n, err := m.lookup(p)
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}

func (m *mounted) lookup(p string) (Node, error) {
	var n Node = m.Root()
	for _, part := range split(p) {
		d, ok := n.(*Dir)
		if !ok {
			return nil, fmt.Errorf("%s: not a directory", p)
		}
		next, err := d.Lookup(m.t.Context(), part)
		if err != nil {
			return nil, err
		}
		n = next
	}
	return n, nil
}

func split(p string) []string {
	var parts []string
	for p = path.Clean(p); p != "/" && p != "."; p = path.Dir(p) {
		parts = append([]string{path.Base(p)}, parts...)
	}
	return parts
}

func (m *mounted) create(p string) *Handle {
	m.t.Helper()
	_, h, err := m.dir(path.Dir(p)).Create(m.t.Context(), path.Base(p), false, OpenFlags{Read: true, Write: true, Truncate: true})
	if err != nil {
		m.t.Fatal(err)
	}
	return h
}

// save writes a file as a program does: create, write, close. Nothing is deferred: after a panic
// the release might wait for ever.
func (m *mounted) save(p, content string) error {
	m.t.Helper()
	h := m.create(p)
	_, err := h.WriteAt(m.t.Context(), []byte(content), 0)
	if err == nil {
		err = h.Flush(m.t.Context())
	}
	h.Release()
	return err
}

func (m *mounted) read(p string) (string, error) {
	m.t.Helper()
	n, err := m.lookup(p)
	if err != nil {
		return "", err
	}
	h, err := n.(*File).Open(m.t.Context(), OpenFlags{Read: true})
	if err != nil {
		return "", err
	}
	text, err := readAll(m.t, h)
	h.Release()
	return text, err
}

func readAll(t testing.TB, h *Handle) (string, error) {
	buf := make([]byte, h.f.Attr().Size+1)
	n, err := h.ReadAt(t.Context(), buf, 0)
	return string(buf[:n]), err
}

// wantNames checks what a directory lists.
func (m *mounted) wantNames(p string, want ...string) {
	m.t.Helper()
	if got := m.names(p); !slices.Equal(got, want) {
		m.t.Errorf("%s lists %v, want %v", p, got, want)
	}
}

func (m *mounted) wantContent(p, want string) {
	m.t.Helper()
	if got, err := m.read(p); err != nil || got != want {
		m.t.Errorf("%s holds %q, %v; want %q", p, got, err, want)
	}
}

func (m *mounted) wantCharges(retrieves, uploads int) {
	m.t.Helper()
	if r, u := m.w.Charged(); r != retrieves || u != uploads {
		m.t.Errorf("charged %d retrievals and %d uploads, want %d and %d", r, u, retrieves, uploads)
	}
}

func (m *mounted) names(p string) []string {
	m.t.Helper()
	list, err := m.dir(p).Entries(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	names := []string{}
	for _, e := range list {
		names = append(names, e.Name)
	}
	return names
}

func wantClass(t testing.TB, err error, want Class) {
	t.Helper()
	var e *Error
	if err == nil || !errors.As(err, &e) || e.Class != want {
		t.Errorf("got error %v, want class %q", err, want)
	}
}
