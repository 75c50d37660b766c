package fs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/confine"
	"golang.org/x/sys/unix"
)

// hardened is the role "harden": it shows itself, then aborts.
func hardened() int {
	if err := unix.Setrlimit(unix.RLIMIT_CORE,
		&unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}); err != nil {
		fmt.Println("no core to forbid:", err)
	}
	if err := confine.Harden(); err != nil {
		fmt.Println(err)
		return 1
	}
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	limits, _ := os.ReadFile(fmt.Sprintf("/proc/%d/limits", os.Getpid()))
	fmt.Printf("dumpable %d %v\n%s\n", dumpable, err, limits)
	_ = unix.Kill(os.Getpid(), unix.SIGABRT)
	select {}
}

// M4, threat 3: no core dump, not even of a process that is told to abort.
func TestM4ProcessCannotBeDumped(t *testing.T) {
	dir := t.TempDir()
	cmd := role("harden", plan{})
	cmd.Dir = dir
	out, _ := cmd.CombinedOutput() // it aborts
	if !bytes.Contains(out, []byte("dumpable 0 <nil>")) {
		t.Errorf("the process is dumpable:\n%s", out)
	}
	if !regexp.MustCompile(`(?m)^Max core file size +0 +0 `).Match(out) {
		t.Errorf("core size is not zero:\n%s", out)
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() && status.ExitStatus() == 0 || status.CoreDump() {
		t.Errorf("ended with %v", cmd.ProcessState)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*core*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// asUser is the role "user", in a mount namespace of its own: it lets everybody
// use the FUSE device there, and has an ordinary user mount, alone and for others.
func asUser() int {
	dir := os.Getenv(envPlan)
	if err := mountPrivateDevice(filepath.Join(dir, "fuse")); err != nil {
		fmt.Println("SKIP", err)
		return 0
	}
	if err := errors.Join(alone(filepath.Join(dir, "alone")), forOthers(filepath.Join(dir, "shared"))); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// alone has an ordinary user mount dir, write, read and unmount.
func alone(dir string) error {
	return userSession(plan{Dir: dir, Harden: true, MaxFile: 1 << 20, Ours: true,
		Theirs: []string{"theirs/f", "theirs/g"}, Options: Options{NoExec: true}}, func() {
		show("user", nobody, dir, "echo hello >team/f && cat team/f")
		show("user on theirs", nobody, dir, "cd team/theirs && cat f && test -w f && echo mine >>f && cat f && touch "+
			"-d @0 g && chmod 640 g && echo >h && mv f new && stat -c %u . g new")
		show("noexec", nobody, dir, "cp /bin/true team/ && chmod 700 team/true && team/true")
		show("root", 0, dir, "cat team/f")
	})
}

// forOthers does so with a mount that others may enter, once this machine allows it.
func forOthers(dir string) error {
	p := plan{Dir: dir, MaxFile: 1 << 20, Theirs: []string{"theirs/f"},
		Options: Options{AllowOther: true, Umask: 0o022}}
	conf := filepath.Join(filepath.Dir(dir), "fuse.conf")
	if err := errors.Join(os.WriteFile(conf, nil, 0o644),
		unix.Mount(conf, "/etc/fuse.conf", "", unix.MS_BIND, "")); err != nil {
		return err
	}
	if err := userSession(p, func() {}); err == nil || !strings.Contains(err.Error(), ErrAllowOther.Error()) {
		return fmt.Errorf("a shared mount where it is not allowed: %v", err)
	}
	if err := os.WriteFile(conf, []byte("user_allow_other\n"), 0o644); err != nil {
		return err
	}
	return userSession(p, func() {
		show("owner", nobody, dir, "echo hello >team/f && cat team/f")
		show("owner on theirs", nobody, dir,
			"cd team/theirs && cat f && echo mine >>f && echo >g && cat f && stat -c %u . f g")
		show("other", nobody-1, dir, "cat team/f")
		show("other writes", nobody-1, dir, "echo x >team/f")
	})
}

func asNobody(cmd *exec.Cmd) *exec.Cmd { return asUID(nobody, cmd) }

func asUID(uid uint32, cmd *exec.Cmd) *exec.Cmd {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	return cmd
}

// show runs a shell command beside a mount as a user, and prints how it went.
func show(who string, uid uint32, dir, script string) {
	cmd := asUID(uid, exec.Command("sh", "-c", strings.ReplaceAll(script, "team/", dir+"/team/")))
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	fmt.Printf("%s: %s, %v\n", who, strings.TrimSpace(string(out)), err)
}

// userSession has an ordinary user serve a mount while do runs.
func userSession(p plan, do func()) error {
	if err := os.Mkdir(p.Dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := os.Chown(p.Dir, nobody, nobody); err != nil {
		return err
	}
	server := asNobody(role("serve", p))
	server.Stderr = os.Stderr
	in, err := server.StdinPipe()
	if err != nil {
		return err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	answers := json.NewDecoder(out)
	var a answer
	if err := answers.Decode(&a); err != nil || a.Error != "" {
		_ = server.Wait() // it has said why
		return fmt.Errorf("mount: %v %s", err, a.Error)
	}
	do()
	if err := json.NewEncoder(in).Encode(order{Do: "unmount", Limit: hangLimit}); err != nil {
		return err
	}
	if err := answers.Decode(&a); err != nil || a.Error != "" {
		return fmt.Errorf("unmount: %v %s", err, a.Error)
	}
	_ = in.Close()
	return server.Wait()
}

func mountPrivateDevice(device string) error {
	const fuseMajor, fuseMinor = 10, 229
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := unix.Mknod(device, unix.S_IFCHR|0o666, int(unix.Mkdev(fuseMajor, fuseMinor))); err != nil {
		return fmt.Errorf("make a FUSE device: %w", err)
	}
	if err := os.Chmod(device, 0o666); err != nil {
		return err
	}
	if err := unix.Mount(device, "/dev/fuse", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("show it as /dev/fuse: %w", err)
	}
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("use it: %w", err)
	}
	return f.Close()
}

// M4, M2: an ordinary user can mount, through fusermount3, from a hardened process.
// No other user can enter, not even root, unless the user and the machine allow it.
func TestM4OrdinaryUserCanMount(t *testing.T) {
	proctest.Need(t, "mount", "root", "fusermount3")
	cmd := role("user", plan{})
	cmd.Env = append(cmd.Env, envPlan+"="+place(t))
	cmd.SysProcAttr.Unshareflags = unix.CLONE_NEWNS
	out, err := cmd.CombinedOutput()
	if reason, ok := strings.CutPrefix(string(out), "SKIP "); ok {
		t.Skip(proctest.LeftOut + "no FUSE device for an ordinary user here: " + reason)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, want := range []string{"user: hello, <nil>", "root: .*Permission denied, exit status 1",
		"owner: hello, <nil>",
		"user on theirs: theirs\ntheirs\nmine\n65533\n65533\n65534, <nil>",
		"noexec: .*Permission denied, exit status 126",
		"owner on theirs: theirs\ntheirs\nmine\n65533\n65534\n65534, <nil>", "other: hello, <nil>",
		"other writes: .*Permission denied, exit status [0-9]"} {
		if !regexp.MustCompile("(?m)^" + want + "$").Match(out) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
}
