package fs

import (
	"context"
	"slices"
	"sync"

	gofs "github.com/hanwen/go-fuse/v2/fs"

	"github.com/svcfs/svcfs/fs/tree"
)

// contentWorkers is how many inodes may be dropped from the page cache at once.
// The kernel waits for pages that are being read, and one file that is being
// sent must not hold up the others.
const contentWorkers = 4

// notifier makes the kernel forget names and content. It only queues notices, and its
// workers deliver them: the kernel may hold a directory or a page until a request of
// ours is answered. Names and content have separate workers, because the kernel
// holds a directory for as long as a rename in it takes, and content must be
// gone within seconds (M5).
type notifier struct {
	mu       sync.Mutex
	dirs     map[*tree.Dir]*dirNode     // that the kernel looked into
	files    map[*tree.File][]*fileNode // that were opened: only these have pages
	names    map[nameNotice]struct{}    // queued
	contents map[*gofs.Inode]struct{}   // queued: pages and attributes
	wake     *sync.Cond
	telling  int // notices being delivered now
	ended    bool
	workers  sync.WaitGroup
}

type nameNotice struct {
	dir        *dirNode
	name       string
	attributes bool // of the file alone: the name stays
	renamed    bool // the kernel is about to give the name to another file
}

func newNotifier() *notifier {
	k := &notifier{dirs: make(map[*tree.Dir]*dirNode), files: make(map[*tree.File][]*fileNode),
		names: make(map[nameNotice]struct{}), contents: make(map[*gofs.Inode]struct{})}
	k.wake = sync.NewCond(&k.mu)
	return k
}

// start starts the workers; the mount is up.
func (k *notifier) start() {
	k.workers.Go(func() { deliver(k, k.names, k.tellName) })
	for range contentWorkers {
		k.workers.Go(func() { deliver(k, k.contents, tellContent) })
	}
}

// stop ends the workers; the mount is gone, so that none waits for the kernel.
func (k *notifier) stop() {
	k.mu.Lock()
	k.ended = true
	k.wake.Broadcast()
	k.mu.Unlock()
	k.workers.Wait()
}

// deliver delivers one notice after the other until the notifier is stopped. The
// order of notices does not matter: each only makes the kernel ask again.
func deliver[N comparable](k *notifier, queue map[N]struct{}, tell func(N)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for !k.ended {
		n, ok := take(queue)
		if !ok {
			k.wake.Wait()
			continue
		}
		k.telling++
		k.mu.Unlock()
		tell(n)
		k.mu.Lock()
		k.telling--
		if k.isQuiet() {
			k.wake.Broadcast() // for Settle
		}
	}
}

func take[N comparable](queue map[N]struct{}) (n N, ok bool) {
	for n = range queue {
		delete(queue, n)
		return n, true
	}
	return n, false
}

// tellName makes the kernel look a name up again. A name it never looked up is
// left alone: the first listing of a large group brings one notice per file. When the file
// or folder that the kernel knows has no name any more, programs that watch it are told (R7).
func (k *notifier) tellName(n nameNotice) {
	switch child := n.dir.GetChild(n.name); {
	case n.renamed: // waits until the kernel has done so
		_ = n.dir.NotifyEntry(n.name)
	case child == nil:
	case n.attributes:
		for _, inode := range k.inodesOf(child) {
			_ = inode.NotifyContent(attributesOnly, 0)
		}
	case isGone(child):
		_ = n.dir.NotifyDelete(n.name, child) // forgotten meanwhile is fine
	default:
		_ = n.dir.NotifyEntry(n.name)
	}
}

// inodesOf returns an inode, and those of the same file that programs opened: see forgetFile.
func (k *notifier) inodesOf(inode *gofs.Inode) []*gofs.Inode {
	list := []*gofs.Inode{inode}
	file, ok := inode.Operations().(*fileNode)
	if !ok {
		return list
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, n := range k.files[file.f] {
		if &n.Inode != inode {
			list = append(list, &n.Inode)
		}
	}
	return list
}

// isGone reports whether no name shows the file or folder any more.
func isGone(inode *gofs.Inode) bool {
	switch n := inode.Operations().(type) {
	case *fileNode:
		return n.f.Attr().Nlink == 0
	case *dirNode:
		return n.d.IsGone()
	}
	return false
}

// attributesOnly is the offset with which the kernel drops no page.
const attributesOnly = -1

// tellContent drops an inode's pages and attributes from the kernel.
func tellContent(n *gofs.Inode) { _ = n.NotifyContent(0, 0) } // forgotten meanwhile is fine

// EntryChanged makes the kernel look the name up again.
func (k *notifier) EntryChanged(d *tree.Dir, name string) { k.changed(d, name, false) }

// AttributesChanged makes the kernel ask for the attributes of the file again.
func (k *notifier) AttributesChanged(d *tree.Dir, name string) { k.changed(d, name, true) }

func (k *notifier) changed(d *tree.Dir, name string, attributes bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if dir := k.dirs[d]; dir != nil {
		k.queue(nameNotice{dir: dir, name: name, attributes: attributes})
	}
}

// queue queues a notice; k.mu is held.
func (k *notifier) queue(n nameNotice) {
	if !k.ended {
		k.names[n] = struct{}{}
		k.wake.Broadcast()
	}
}

// renamed makes the kernel look up a name that it is giving to a file if the file has another name by now: its save met
// one of others (W11).
func (k *notifier) renamed(child *gofs.Inode, to *dirNode, name string) {
	file, ok := child.Operations().(*fileNode)
	if !ok {
		return
	}
	if at, shown := file.f.Parent(); at == to.d && shown == name {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.queue(nameNotice{dir: to, name: name, renamed: true})
}

// ContentChanged makes the kernel drop pages and attributes, also of a file
// that is no longer open.
func (k *notifier) ContentChanged(f *tree.File) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, file := range k.files[f] {
		k.drop(&file.Inode)
	}
}

// Settle waits until the kernel has got all notices, or ctx ends.
func (k *notifier) Settle(ctx context.Context) {
	defer context.AfterFunc(ctx, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.wake.Broadcast()
	})()
	k.mu.Lock()
	defer k.mu.Unlock()
	for !k.isQuiet() && !k.ended && ctx.Err() == nil {
		k.wake.Wait()
	}
}

// isQuiet reports whether the kernel has got all notices; k.mu is held.
func (k *notifier) isQuiet() bool {
	return len(k.names) == 0 && len(k.contents) == 0 && k.telling == 0
}

// drop queues an inode; k.mu is held.
func (k *notifier) drop(n *gofs.Inode) {
	if !k.ended {
		k.contents[n] = struct{}{}
		k.wake.Broadcast()
	}
}

// OwnerChanged makes the kernel ask for the owner of the directory again (A5).
func (k *notifier) OwnerChanged(d *tree.Dir) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if dir := k.dirs[d]; dir != nil {
		k.drop(&dir.Inode)
	}
}

func (k *notifier) knowDir(n *dirNode) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dirs[n.d] = n
}

// meetDir is knowDir for a node that is to be shown. Where the kernel knows the directory, go-fuse
// keeps the node it has.
func (k *notifier) meetDir(n *dirNode) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dirs[n.d] == nil {
		k.dirs[n.d] = n
	}
}

func (k *notifier) knowFile(n *fileNode) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Contains(k.files[n.f], n) {
		k.files[n.f] = append(k.files[n.f], n)
	}
}

func (k *notifier) forgetDir(n *dirNode) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.dirs[n.d]; known != nil && known.made <= n.made {
		delete(k.dirs, n.d)
	}
}

func (k *notifier) forgetFile(n *fileNode) {
	k.mu.Lock()
	defer k.mu.Unlock()
	// go-fuse forgets no node in whose place it put another of the same inode: see makeToTell. A later node may be
	// known already: the kernel may look the file up again meanwhile.
	nodes := slices.DeleteFunc(k.files[n.f], func(known *fileNode) bool { return known.made <= n.made })
	if k.files[n.f] = nodes; len(nodes) == 0 {
		delete(k.files, n.f)
	}
}

// ContentGone makes the kernel drop the pages of all files that match selects.
func (k *notifier) ContentGone(match func(*tree.File) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for f, nodes := range k.files {
		if !match(f) {
			continue
		}
		for _, node := range nodes {
			k.drop(&node.Inode)
		}
	}
}

var _ tree.Kernel = (*mounted)(nil)
