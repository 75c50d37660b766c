package proctest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// LeftOut begins the reason of each test that this machine cannot run. The end of make test
// counts these reasons and names the packages in them.
const LeftOut = "left out: "

//go:embed packages
var packages string

// A requirement is a line of the file packages: what tests use, and where it comes from.
type requirement struct {
	name           string // a program, or a pattern of an absolute file
	from           string // the Debian package
	option, answer string // "" = whoever carries the name is the right program
}

func requirements() (list []requirement) {
	for line := range strings.Lines(packages) {
		f := strings.Fields(line)
		if len(f) < 2 || strings.HasPrefix(f[0], "#") {
			continue
		}
		r := requirement{name: f[0], from: f[1]}
		if len(f) > 3 {
			r.option, r.answer = f[2], f[3]
		}
		list = append(list, r)
	}
	return list
}

func (r requirement) isThere() bool {
	if filepath.IsAbs(r.name) {
		found, _ := filepath.Glob(r.name) // the pattern is right
		return len(found) > 0
	}
	path, err := exec.LookPath(r.name)
	if err != nil || r.option == "" {
		return err == nil
	}
	out, _ := exec.Command(path, r.option).CombinedOutput() // what it shows decides
	return strings.Contains(string(out), r.answer)
}

// MissingPackages returns the Debian packages that the tests use and that are not installed.
func MissingPackages() (list []string) {
	for _, r := range requirements() {
		if !r.isThere() {
			list = append(list, r.from)
		}
	}
	return list
}

// Skipper is a test, or a script of one.
type Skipper interface{ Skip(reason ...any) }

// Need leaves a test out where something is not there: a program, or the absolute path of a
// file, as the file packages has it, or one of
//
//	mount     mounting by FUSE
//	root      the rights of root
//	apart     mounts of one's own, as unshare --mount makes them
//	terminal  pseudo-terminals
func Need(tb Skipper, names ...string) {
	var why []string
	for _, name := range names {
		if lack := Lacks(name); lack != "" {
			why = append(why, lack)
		}
	}
	if len(why) > 0 {
		tb.Skip(LeftOut + strings.Join(why, "; "))
	}
}

// Long leaves a test that takes long by its nature to make test-all.
func Long(tb Skipper) {
	if testing.Short() {
		tb.Skip(LeftOut + "long by nature: make test-all runs it")
	}
}

// Lacks says what is missing of what a test needs, "" = nothing.
func Lacks(name string) string {
	switch name {
	case "root":
		if os.Geteuid() != 0 {
			return "only root can"
		}
		return ""
	case "mount":
		return lacksMount()
	case "apart":
		if out, err := Apart("true").CombinedOutput(); err != nil {
			return "no mounts of its own here: unshare: " + strings.TrimSpace(string(out))
		}
		return ""
	case "terminal":
		if !opens("/dev/ptmx") {
			return "/dev/ptmx is missing"
		}
		return ""
	}
	for _, r := range requirements() {
		if r.name == name {
			if r.isThere() {
				return ""
			}
			return name + " is missing: apt-get install " + r.from
		}
	}
	if _, err := exec.LookPath(name); err != nil {
		panic("integration/proctest/packages does not say where " + name + " comes from")
	}
	return "" // each Debian has it
}

func lacksMount() string {
	if !opens("/dev/fuse") {
		return "/dev/fuse is missing or closed to this user: modprobe fuse, or chmod 666 /dev/fuse"
	}
	if os.Geteuid() == 0 {
		return ""
	}
	if _, err := os.Stat("/etc/mtab"); err != nil {
		return "/etc/mtab is missing, without which fusermount3 cannot unmount: ln -s /proc/self/mounts /etc/mtab"
	}
	return Lacks("fusermount3")
}

func opens(device string) bool {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}

// Apart prepares a program that has mounts of its own. A user who is not root gets them through a namespace of users.
func Apart(program string, args ...string) *exec.Cmd {
	before := []string{"--mount"}
	if os.Geteuid() != 0 {
		before = append(before, "--map-current-user", "--keep-caps")
	}
	return exec.Command("unshare", append(append(before, program), args...)...)
}
