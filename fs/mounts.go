package fs

import (
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// MountInfo is one mounted filesystem.
type MountInfo struct {
	Dir    string // mountpoint
	Type   string // such as fuse.svcfs
	Source string // svcfs:ACCOUNT
	User   int    // who mounted it, as the kernel knows; -1 for what is not FUSE
	ID     int    // number in the kernel's list, while it lasts
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
		list[i] = MountInfo{Dir: p.Mountpoint, Type: p.FSType, Source: p.Source, User: userOf(p.VFSOptions), ID: p.ID}
	}
	return list, err
}

// userOf finds user_id among the options of a mount, -1 for none. The kernel writes it there.
func userOf(options string) int {
	for option := range strings.SplitSeq(options, ",") {
		if text, ok := strings.CutPrefix(option, "user_id="); ok {
			if user, err := strconv.Atoi(text); err == nil {
				return user
			}
		}
	}
	return -1
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
