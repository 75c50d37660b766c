package fs

import (
	"io"
	"os"

	"github.com/moby/sys/mountinfo"
)

// MountInfo is one mounted filesystem.
type MountInfo struct {
	Dir    string // mountpoint
	Type   string // such as fuse.svcfs
	Source string // svcfs:ACCOUNT
	id     int    // number in the kernel's list
}

// autoFS is the type of the mount with which systemd waits to mount on demand.
const autoFS = "autofs"

// Mounts lists the svcfs mounts this process can see, dead ones too.
func Mounts() ([]MountInfo, error) {
	all, err := mountpoints()
	if err != nil {
		return nil, err
	}
	var ours []MountInfo
	for _, p := range all {
		if p.isOurs() {
			ours = append(ours, p)
		}
	}
	return ours, nil
}

func (i MountInfo) isOurs() bool { return i.Type == "fuse."+fsType }

// mountpoints reads the kernel's list of mounts, and asks none of them anything.
func mountpoints() ([]MountInfo, error) {
	list, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer list.Close()
	return readMountinfo(list)
}

// readMountinfo reads proc(5) mountinfo. Of mounts stacked on one directory the last is
// the one that shows.
func readMountinfo(r io.Reader) ([]MountInfo, error) {
	points, err := mountinfo.GetMountsFromReader(r, nil)
	list := make([]MountInfo, len(points))
	for i, p := range points {
		list[i] = MountInfo{Dir: p.Mountpoint, Type: p.FSType, Source: p.Source, id: p.ID}
	}
	return list, err
}

// mountAt returns the mount that shows at dir.
func mountAt(points []MountInfo, dir string) (MountInfo, bool) {
	for i := len(points) - 1; i >= 0; i-- {
		if points[i].Dir == dir {
			return points[i], true
		}
	}
	return MountInfo{}, false
}

func isMounted(points []MountInfo, dir string) bool {
	_, ok := mountAt(points, dir)
	return ok
}
