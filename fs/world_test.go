package fs

import (
	"context"
	"fmt"
	"iter"

	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/fs/tree/treetest"
	"github.com/svcfs/svcfs/sdk"
)

const alice, bob sdk.AccountID = "alice.svc.testnet", "bob.svc.testnet"

// world is a service in memory as alice sees it, who owns its groups; bob is the other
// member.
type world struct {
	treetest.Person
	goOn   map[string]func() // of the operations that hang
	events chan sdk.Event    // of a watch; nil without one
}

// counts are what the service did; Blocks is how many blocks of the newest upload were
// fetched, and Twice how many of them more than once.
type counts struct{ Retrieves, Uploads, Waiting, Requests, Blocks, Twice int }

var (
	_ tree.Remote      = (*world)(nil)
	_ tree.BlockRemote = (*world)(nil)
)

func (w *world) OpenBlocks(ctx context.Context, e sdk.Entry, ahead ...int64) (tree.Blocks, error) {
	b, err := w.Person.OpenBlocks(ctx, e, ahead...)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (w *world) BeginBlocks(ctx context.Context, g sdk.GroupID, base tree.Blocks, blockBytes int64) (tree.BlockUpload,
	error) {
	from, _ := base.(*treetest.Blocks)
	u, err := w.Person.BeginBlocks(ctx, g, from, blockBytes)
	if err != nil {
		return nil, err
	}
	return remoteUpload{u}, nil
}

type remoteUpload struct{ *treetest.BlockUpload }

func (u remoteUpload) Opened() tree.Blocks {
	if b := u.BlockUpload.Opened(); b != nil {
		return b
	}
	return nil
}

func newWorld() *world {
	w := &world{Person: treetest.NewWorld().As(alice), goOn: map[string]func(){}}
	w.Member("team", alice, bob)
	return w
}

func (w *world) stall(op string, on bool) {
	if goOn := w.goOn[op]; goOn != nil {
		goOn()
		delete(w.goOn, op)
	}
	if on {
		w.goOn[op] = w.Stall(op)
	}
}

func (w *world) failWith(op string, kind *sdk.Kind) {
	if kind == nil {
		w.Fail(op, nil)
		return
	}
	w.Fail(op, &sdk.Error{Op: op, Kind: *kind, Err: fmt.Errorf("%s was told to fail", op)})
}

// watch is what a mount watches; server.told sends on it.
func (w *world) watch(context.Context, sdk.Seq) (iter.Seq2[sdk.Event, error], error) {
	return treetest.Events(w.events), nil
}

// put records an upload of bob's; size is what the service tells of it.
func (w *world) put(g sdk.GroupID, name string, data []byte, size int64) {
	e := w.Put(g, bob, name, data)
	w.Edit(g, e.Ref, func(e *sdk.Entry) { e.Size = size })
}

// putLink records a symbolic link of bob's.
func (w *world) putLink(g sdk.GroupID, name, target string) {
	e := w.Put(g, bob, name, []byte(target))
	w.Edit(g, e.Ref, func(e *sdk.Entry) { e.Attributes = &sdk.Attributes{Target: target} })
}

// shred deletes the nth upload of a group.
func (w *world) shred(g sdk.GroupID, nth int) { w.Shred(g, w.Rows(g)[nth].Ref) }

// rename gives the nth upload of a group another name.
func (w *world) rename(g sdk.GroupID, nth int, name string) error {
	_, err := w.RenameFile(context.Background(), g, w.Rows(g)[nth].Ref, name)
	return err
}

func (w *world) join(g sdk.GroupID, member bool) {
	if member {
		w.Member(g, alice)
	} else {
		w.Revoke(g, alice)
	}
}

func (w *world) charged() counts {
	retrieves, uploads := w.Charged()
	c := counts{Retrieves: retrieves, Uploads: uploads, Waiting: w.Hanging(), Requests: w.Begun("set attributes")}
	if rows := w.Rows("team"); len(rows) > 0 {
		fetched := w.Fetched(rows[len(rows)-1].Ref)
		c.Blocks = len(fetched)
		for _, n := range fetched {
			c.Twice += min(1, n-1)
		}
	}
	return c
}
