package integration

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
)

// mount(8) runs mount.svcfs ACCOUNT DIR -o OPTIONS for a line of fstab.
func TestMountHelperOfFstab(t *testing.T) {
	proctest.Need(t, "mount")
	w, alice, _ := team(t)
	helper := filepath.Join(w.dir, "mount.svcfs")
	ok(t, os.Symlink(filepath.Join(w.bin, "svcfs"), helper))
	file := filepath.Join(w.dir, "f")
	write(t, file, []byte("x"))
	alice.must("put", "team", file)
	dir, log := w.mkdir("mnt"), filepath.Join(w.dir, "mount.log")
	options := "ro,noauto,_netdev,x-systemd.automount,log_level=debug,url=" + w.url + ",api_key_file=" + alice.keyFile +
		",log_file=" + log
	cmd := exec.Command(helper, alice.id, dir, "-n", "-o", options)
	cmd.Env = w.env("SVC_URL=http://127.0.0.1:1") // the option counts
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { alice.must("umount", dir) })
	if got := string(read(t, filepath.Join(dir, "team/f"))); got != "x" {
		t.Errorf("f holds %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "team/g"), nil, 0o600); err == nil {
		t.Error("ro had no effect")
	}
	if info, err := os.Stat(log); err != nil || info.Mode() != 0o600 {
		t.Errorf("log: %v, %v", info, err)
	}
	if out, err := exec.Command(helper, alice.id, dir, "-o", "api_key=x").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "unknown mount option") {
		t.Errorf("an unknown option: %v %s", err, out)
	}
	if out, err := exec.Command(helper, "-f", alice.id, dir).CombinedOutput(); err != nil {
		t.Errorf("mount -f: %v %s", err, out)
	}
}

// A line of fstab and mount -t svcfs, as mount(8) reads them, with the helper where
// mount(8) looks for it: in a mount namespace of its own, so that /sbin stays.
func TestFstabLine(t *testing.T) {
	proctest.Need(t, "root", "mount", "apart")
	w, alice, _ := team(t)
	dir, file := w.mkdir("mnt"), filepath.Join(w.dir, "f")
	write(t, file, []byte("content\n"))
	alice.must("put", "team", file)
	options := "url=" + w.url + ",api_key_file=" + alice.keyFile + ",log_file=" + filepath.Join(w.dir, "mount.log")
	fstab := filepath.Join(w.dir, "fstab")
	write(
		t, fstab,
		[]byte(
			alice.id+" "+dir+" svcfs ro,noauto,x-systemd.automount,_netdev,nofail,allow_other,umask=022,volume_name=work,"+options+" 0 0\n"))
	script := alone + `mount -t tmpfs -o mode=0755 helper /sbin
		ln -s "$BIN/svcfs" /sbin/mount.svcfs
		mount -T fstab mnt
		findmnt -n -o SOURCE,FSTYPE mnt
		cat mnt/team/f
		stat -c '%u %g %a' mnt/team/f
		if touch mnt/team/g; then exit 1; fi
		umount mnt
		mount -t svcfs -o "$OPTIONS" "$ACCOUNT" mnt
		echo new >mnt/team/g
		cat mnt/team/g
		umount mnt
		if mount -t svcfs -o api_key=x,"$OPTIONS" "$ACCOUNT" mnt; then exit 1; fi`
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "bash", "-euc", script)
	cmd.Dir, cmd.Env = w.dir, w.env("BIN="+w.bin, "OPTIONS="+options, "ACCOUNT="+alice.id, "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, read(t, filepath.Join(w.dir, "mount.log")))
	}
	for _, want := range []string{"svcfs:work fuse.svcfs\n", "content\n0 0 644\n", "Read-only file system", "\nnew\n",
		`unknown mount option "api_key=x"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), alice.key) {
		t.Error("shows the key")
	}
}

// A line of fstab with the option user: an ordinary user mounts and unmounts what it
// says, with their own key and the log in their home directory, of which mount(8) does
// not tell. It happens with a user, an fstab and a /dev/fuse of the test's own.
func TestFstabLineForUsers(t *testing.T) {
	proctest.Need(t, "root", "mount", "apart", "fusermount3")
	w, alice, _ := team(t)
	file := filepath.Join(w.dir, "f")
	write(t, file, []byte("content\n"))
	alice.must("put", "team", file)
	script := alone + `mount -t tmpfs -o mode=0755 user /mnt
		mkdir /mnt/x /mnt/home /mnt/bin
		cp "$BIN/svcfs" /mnt/bin; cp "$KEY" /mnt/home/key
		chown -R 4242:4242 /mnt/x /mnt/home
		cp -a /etc /mnt/etc; mount --bind /mnt/etc /etc
		echo carol:x:4242:4242::/mnt/home:/bin/sh >>/etc/passwd
		echo "$ACCOUNT /mnt/x svcfs user,noauto,uid=4242,url=$SVC_URL,api_key_file=/mnt/home/key 0 0" >/etc/fstab
		mount -t tmpfs -o mode=0755 helper /sbin
		ln -s /mnt/bin/svcfs /sbin/mount.svcfs
		carol() { setpriv --reuid=4242 --regid=4242 --clear-groups -- "$@"; }
		mknod -m 0600 /mnt/closed c 10 229; mount --bind /mnt/closed /dev/fuse
		if carol mount /mnt/x; then exit 1; fi
		mknod -m 0666 /mnt/open c 10 229; mount --bind /mnt/open /dev/fuse
		carol mount /mnt/x
		carol sh -c 'cat /mnt/x/team/f; echo new >/mnt/x/team/g; stat -c "%u %a" /mnt/x/team/g'
		if cat /mnt/x/team/f; then exit 1; fi
		ls /mnt/home/.local/state/svcfs
		carol umount /mnt/x
		if grep /mnt/x /proc/self/mounts; then exit 1; fi`
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "bash", "-euc", script)
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "SVC_URL=" + w.url, "BIN=" + w.bin,
		"KEY=" + alice.keyFile, "ACCOUNT=" + alice.id, "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"this user may not open /dev/fuse\nhint: let users mount: sudo chmod 666 /dev/fuse",
		"\ncontent\n4242 600\n", "/mnt/x/team/f: Permission denied", "\nmount-x-"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	if got := alice.must("ls", "team", "--json"); !strings.Contains(got, `"g"`) {
		t.Errorf("g was not saved: %s", got)
	}
}

// SIGHUP makes a mount look at the ledger now, and never ends it: without a service
// the look fails, and says so.
func TestHangupRefreshes(t *testing.T) {
	w, alice, _ := team(t)
	a := alice.mount("a")
	write(t, a.path("team/f"), []byte("x"))
	w.stop()
	ok(t, a.cmd.Process.Signal(syscall.SIGHUP))
	proctest.Eventually(t, "a look at the ledger", func() bool { return strings.Contains(a.log.String(), "refresh: ") })
	if got := string(read(t, a.path("team/f"))); got != "x" {
		t.Errorf("afterwards f holds %q", got)
	}
}

// A service manager is told when the mount can be used, and when it ends.
func TestServiceManagerIsTold(t *testing.T) {
	proctest.Need(t, "mount")
	w, alice, _ := team(t)
	path := filepath.Join(w.dir, "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	cmd := alice.command("mount", w.mkdir("mnt"))
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+path)
	log := &safeBuffer{}
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	ok(t, cmd.Start())
	told := func(want string) {
		t.Helper()
		message := make([]byte, 1000)
		ok(t, socket.SetReadDeadline(time.Now().Add(proctest.Hang)))
		n, err := socket.Read(message)
		if err != nil || !strings.HasPrefix(string(message[:n]), want) {
			t.Errorf("told %q, %v; want %s\n%s", message[:n], err, want, log)
		}
	}
	told("READY=1\nSTATUS=mounted alice.svc.testnet on ")
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "mounted ") {
		t.Errorf("said %q, %v", line, err)
	}
	ok(t, cmd.Process.Signal(os.Interrupt))
	told("STOPPING=1")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, log)
	}
}
