package fs

import (
	"os"
	"strings"
)

// MountInfo is one mounted filesystem.
type MountInfo struct {
	Dir    string // mountpoint
	Type   string // such as fuse.svcfs
	Source string // svcfs:ACCOUNT
	id     string // of the kernel's
}

// autoFS is the type of what systemd puts where something is mounted on demand.
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

// mountpoints reads the kernel's list; it asks nothing of what is mounted.
func mountpoints() ([]MountInfo, error) {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseMountinfo(string(raw)), nil
}

// parseMountinfo reads proc(5) mountinfo: fields, a lone dash, type and source.
// Of mounts stacked on one directory the last is the one that shows.
func parseMountinfo(text string) []MountInfo {
	const idField, dirField, minFields = 0, 4, 5
	var list []MountInfo
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(line, " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < minFields || len(rest) < 2 {
			continue
		}
		list = append(list, MountInfo{Dir: unescape(fields[dirField]), Type: rest[0], Source: unescape(rest[1]), id: fields[idField]})
	}
	return list
}

// mountAt returns what shows at dir.
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

// unescape undoes the octal escapes of mountinfo: \040 is a space.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if v, ok := octal(s[i:]); ok {
			b.WriteByte(v)
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// octal reads a backslash and three octal digits.
func octal(s string) (byte, bool) {
	if len(s) < 4 || s[0] != '\\' {
		return 0, false
	}
	v := 0
	for _, c := range []byte(s[1:4]) {
		if c < '0' || c > '7' {
			return 0, false
		}
		v = v*8 + int(c-'0')
	}
	return byte(v), v < 256
}
