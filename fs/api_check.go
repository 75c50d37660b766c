package fs

import gofs "github.com/hanwen/go-fuse/v2/fs"

// The requests of the kernel that are served. Left out on purpose:
//
//   - NodeMknoder is here to answer EPERM at once and to note why (N5).
//   - NodeTmpfiler (O_TMPFILE): a file without a name cannot be recorded;
//     programs get EOPNOTSUPP and use a named temporary file.
//   - NodeAllocater, NodeCopyFileRanger: programs fall back to ordinary writes,
//     which would also be the work here.
//   - NodeLseeker: go-fuse answers from the size; there are no holes.
//   - NodeGetlker, NodeSetlker, NodeSetlkwer: the kernel keeps locks itself,
//     which holds inside one mount (W13).
//   - NodeIoctler: nothing to control.
//   - NodeReaddirer: NodeOpendirHandler takes its place, because an open
//     directory is a snapshot.
var (
	_ gofs.NodeLookuper       = (*dirNode)(nil)
	_ gofs.NodeOpendirHandler = (*dirNode)(nil)
	_ gofs.NodeAccesser       = (*dirNode)(nil)
	_ gofs.NodeGetattrer      = (*dirNode)(nil)
	_ gofs.NodeSetattrer      = (*dirNode)(nil)
	_ gofs.NodeCreater        = (*dirNode)(nil)
	_ gofs.NodeMkdirer        = (*dirNode)(nil)
	_ gofs.NodeRmdirer        = (*dirNode)(nil)
	_ gofs.NodeUnlinker       = (*dirNode)(nil)
	_ gofs.NodeRenamer        = (*dirNode)(nil)
	_ gofs.NodeLinker         = (*dirNode)(nil)
	_ gofs.NodeSymlinker      = (*dirNode)(nil)
	_ gofs.NodeMknoder        = (*dirNode)(nil)
	_ gofs.NodeStatfser       = (*dirNode)(nil)
	_ gofs.NodeGetxattrer     = (*dirNode)(nil)
	_ gofs.NodeSetxattrer     = (*dirNode)(nil)
	_ gofs.NodeRemovexattrer  = (*dirNode)(nil)
	_ gofs.NodeOnForgetter    = (*dirNode)(nil)

	_ gofs.FileReaddirenter = (*dirHandle)(nil)
	_ gofs.FileSeekdirer    = (*dirHandle)(nil)
	_ gofs.FileFsyncdirer   = (*dirHandle)(nil)

	_ gofs.NodeOpener        = (*fileNode)(nil)
	_ gofs.NodeReadlinker    = (*fileNode)(nil)
	_ gofs.NodeAccesser      = (*fileNode)(nil)
	_ gofs.NodeGetattrer     = (*fileNode)(nil)
	_ gofs.NodeSetattrer     = (*fileNode)(nil)
	_ gofs.NodeStatfser      = (*fileNode)(nil)
	_ gofs.NodeLseeker       = (*fileNode)(nil)
	_ gofs.NodeGetxattrer    = (*fileNode)(nil)
	_ gofs.NodeListxattrer   = (*fileNode)(nil)
	_ gofs.NodeSetxattrer    = (*fileNode)(nil)
	_ gofs.NodeRemovexattrer = (*fileNode)(nil)
	_ gofs.NodeOnForgetter   = (*fileNode)(nil)

	_ gofs.FileReader   = (*fileHandle)(nil)
	_ gofs.FileWriter   = (*fileHandle)(nil)
	_ gofs.FileFlusher  = (*fileHandle)(nil)
	_ gofs.FileFsyncer  = (*fileHandle)(nil)
	_ gofs.FileReleaser = (*fileHandle)(nil)
)
