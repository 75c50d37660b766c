package integration

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
)

// alone begins a script in a mount namespace of its own: a copy there of a mount of
// another test would keep that one from ending. mount(8) gives helpers the home of the
// password file: an empty one, so that no key is pinned of another service at this address.
const alone = proctest.WaitFor + `awk '$3 == "fuse.svcfs" {print $2}' /proc/self/mounts | while read -r dir; do umount -lic "$(printf %b "$dir")" || :; done # one that ended meanwhile is no failure
	mount -t tmpfs -o mode=0700 home ~root
	`

// fstab runs a script with an fstab of its own, where mount(8) finds the helper: in
// namespaces of its own, so that nothing of the machine changes and nothing outlives
// it. There carol is 4242 with a home in /mnt/home and her key in it, and may not open
// /dev/fuse. The script has: line OPTIONS, which makes the one line of fstab; carol
// COMMAND, which runs as her; left, which tells what is still mounted and runs; and
// ended PID.
func fstab(t *testing.T, script string) (out string) {
	t.Helper()
	proctest.Need(t, "root", "mount", "apart")
	w, alice, _ := team(t)
	file := w.dir + "/f"
	write(t, file, []byte("content\n"))
	alice.must("put", "team", file)
	setup := alone + `mount -t tmpfs -o mode=0755 user /mnt
		mkdir /mnt/x /mnt/home /mnt/bin /mnt/other
		mkdir -m 1777 /mnt/ran
		cp "$BIN/svcfs" /mnt/bin; cp "$KEY" /mnt/home/key
		chown -R 4242:4242 /mnt/home; chmod 0700 /mnt/home
		cp -a /etc /mnt/etc; mount --bind /mnt/etc /etc
		echo carol:x:4242:4242::/mnt/home:/bin/sh >>/etc/passwd
		echo carol:x:4242: >>/etc/group; echo friends:x:4250:carol >>/etc/group
		mount -t tmpfs -o mode=0755 helper /sbin
		ln -s /mnt/bin/svcfs /sbin/mount.svcfs
		mknod -m 0600 /mnt/closed c 10 229; mount --bind /mnt/closed /dev/fuse
		line() { echo "$ACCOUNT /mnt/x svcfs noauto,url=$SVC_URL,$1 0 0" >/etc/fstab; }
		carol() { setpriv --reuid=4242 --regid=4242 --clear-groups --inh-caps=-all -- env HOME=/mnt/home "$@"; }
		pid() { carol grep -Po '"pid": *\K\d+' /mnt/x/.svcfs/status; }
		ended() { timeout 60 tail --pid="$1" -f /dev/null; }
		running() { for p in /proc/[0-9]*; do if [[ $(readlink $p/exe) == /mnt/bin/svcfs ]]; then echo "${p#/proc/}"; fi; done; }
		left() { for p in $(running); do ended $p; done; echo "left: $(running) $(grep " /mnt/x " /proc/self/mounts || true)."; }
		`
	// the loops of the scripts have no bound of their own
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child",
		"--mount-proc", "bash", "-euc", setup+script)
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "SVC_URL=" + w.url, "BIN=" + w.bin,
		"KEY=" + alice.keyFile, "ACCOUNT=" + alice.id, "LC_ALL=C"}
	cmd.WaitDelay = time.Minute
	raw, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	if strings.Contains(string(raw), alice.key) {
		t.Error("shows the key")
	}
	return string(raw)
}

// want fails the test unless each line stands in what a script said.
func want(t *testing.T, out string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !regexp.MustCompile(`(?m)^(?:` + line + `)$`).MatchString(out) {
			t.Errorf("lacks %q", line)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
}

// Threat 18: what root mounts with uid= is a process of that user, with their groups
// and no capability; of root's only the process that mounts and unmounts stays, and
// ends with it.
func TestThreat18FstabLineBecomesTheUser(t *testing.T) {
	out := fstab(t, `line api_key_file=/mnt/home/key,uid=4242
		SVC_API_KEY=svc_sk_of_root SECRET=of-root mount /mnt/x
		pid=$(pid)
		grep -E '^(Uid|Gid|Groups|Cap(Prm|Eff|Amb)|NoNewPrivs):' /proc/$pid/status | tr '\t' ' '
		if grep -z of.root /proc/$pid/environ; then exit 1; fi
		for p in $(running); do echo "runs as $(awk '/^Uid/ {print $2, $3, $4, $5}' /proc/$p/status):$(tail -zn +2 /proc/$p/cmdline | tr '\0' ' ' | cut -c -9)"; done
		stat -c 'state of %u' /mnt/home/.local/state/svcfs/*
		carol sh -c 'cat /mnt/x/team/f; echo new >/mnt/x/team/g; stat -c "%u %g %a" /mnt/x/team/g; cat /mnt/x/team/g'
		if cat /mnt/x/team/f; then exit 1; fi
		umount /mnt/x
		left
		mount /mnt/x; carol cat /mnt/x/team/g; umount /mnt/x
		left`)
	want(t, out, "Uid: 4242 4242 4242 4242", "Gid: 4242 4242 4242 4242", "Groups: 4242 4250 ", "CapPrm: 0+",
		"CapEff: 0+", "CapAmb: 0+", "NoNewPrivs: 1",
		"runs as 4242 4242 4242 4242:mount --r", "runs as 4242 4242 4242 4242:outside-o", "runs as 0 0 0 0:outside-o",
		"state of 4242",
		"content\n4242 4242 600\nnew", ".*/mnt/x/team/f: Permission denied", `left:  \.\nmounted .*\nnew\nleft:  \.`)
	if n := strings.Count(out, "runs as"); n != 3 {
		t.Errorf("%d processes", n)
	}
}

// Threat 18: key files and settings obey ssh's rules as the user that the line names.
// What the settings of others say is not run, and what the user's own say runs as them.
func TestThreat18FstabLineReadsAsTheUser(t *testing.T) {
	out := fstab(t, `refuse() { if mount /mnt/x; then exit 1; else echo "exit $?"; fi; }
		cp /mnt/home/key /mnt/other/key; chown 4343 /mnt/other/key; chmod 0644 /mnt/other/key
		line api_key_file=/mnt/other/key,uid=4242; refuse
		chown 0:4250 /mnt/other/key; chmod 0600 /mnt/other/key; refuse
		chmod 0640 /mnt/other/key; mount /mnt/x; carol cat /mnt/x/team/f; umount /mnt/x; left

		echo "SVC_API_KEY_COMMAND='id -u >/mnt/ran/by; cat /mnt/home/key'" >/mnt/other/config
		chown 4343 /mnt/other/config
		line config=/mnt/other/config,user=carol; refuse
		ls /mnt/ran
		chown 4242 /mnt/other/config; mount /mnt/x
		stat -c 'of %u %g' /mnt/ran/by; cat /mnt/ran/by
		umount /mnt/x; left

		cp /mnt/home/key /mnt/other/key4343; chown 4343 /mnt/other/key4343
		line api_key_file=/mnt/other/key4343,uid=4343; refuse
		line api_key_file=/mnt/other/key4343,uid=4343,gid=4344; mount /mnt/x
		setpriv --reuid=4343 --regid=4344 --clear-groups cat /mnt/x/team/f; umount /mnt/x; left`)
	want(t, out, `svcfs: .*/mnt/other/key.* it belongs to another user \(uid 4343\)`,
		"hint: sudo chown 4242 /mnt/other/key", ".*/mnt/other/key: permission denied",
		`content\nleft:  \.`, ".*/mnt/other/config is not used: it belongs to another user .*",
		"hint: sudo chown 4242 /mnt/other/config\nexit 3\nmounted .*\nof 4242 4242\n4242\nleft:  \\.",
		"svcfs: uid 4343 is no user of this machine, and has no group", `content\nleft:  \.\n`)
}

// Threat 18: a mount that root made for a user ends as any other, whoever ends it, and
// what its process leaves behind is cleaned away.
func TestThreat18FstabLineOfAUserEnds(t *testing.T) {
	out := fstab(t, `line api_key_file=/mnt/home/key,uid=4242,gid=4250
		mount /mnt/x; carol /mnt/bin/svcfs umount /mnt/x; left
		mount /mnt/x; kill $(pid); left
		chown 4242 /mnt/x
		mount /mnt/x; carol umount /mnt/x; left
		mount /mnt/x
		carol sh -c 'cd /mnt/x; echo $$ >/mnt/ran/ready; exec sleep 1000' &
		wait_for test -s /mnt/ran/ready
		if umount /mnt/x; then exit 1; fi
		carol stat -c 'shows %u %g' /mnt/x/team/f
		kill $(cat /mnt/ran/ready); wait || true
		/mnt/bin/svcfs umount /mnt/x; left
		if carol touch /mnt/x/late; then exit 1; fi
		mount /mnt/x; kill -9 $(pid); left; mount /mnt/x; carol cat /mnt/x/team/f; umount /mnt/x; left`)
	want(
		t, out,
		`left:  \.\nmounted .*\nleft:  \.\nmounted .*\nleft:  \.\n(?s:.*)shows 4242 4250\n(?s:.*)left:  \.\n(?s:.*)left:  \.\n(?s:.*)content\nleft:  \.`, ".*/mnt/x: target is busy.*", ".*late.*: Permission denied")
}

// Threat 1: root's line says who may enter, and that no program runs; settings of the
// user's may only close more.
func TestThreat1FstabLineBoundsTheUser(t *testing.T) {
	out := fstab(t, `mkdir -p /mnt/home/.config/svcfs
		set() { echo "SVC_MOUNT_OPTIONS=$1" >/mnt/home/.config/svcfs/config; chown -R 4242 /mnt/home/.config; }
		set allow_other
		line api_key_file=/mnt/home/key,uid=4242
		if mount /mnt/x; then exit 1; fi
		left
		set noexec
		line api_key_file=/mnt/home/key,uid=4242,allow_other,ro,umask=022
		mount /mnt/x
		findmnt -n -o SOURCE,FSTYPE,OPTIONS /mnt/x
		cat /mnt/x/team/f
		umount /mnt/x; left`)
	want(t, out, "svcfs: .*/etc/fuse.conf does not allow --allow-other.*",
		`svcfs:\S+ +fuse.svcfs +ro,nosuid,nodev,noexec,\S*user_id=4242,group_id=4242,default_permissions,allow_other\S*`, `content\nleft:  \.`)
}

// A line with x-systemd.automount is mounted when somebody looks, and again after it
// was unmounted: what systemd does of it is done by hand, with autofs of the kernel.
// Whoever looks at the folder meanwhile waits until mount(8) has ended, but for the
// process group that mounts.
func TestFstabLineOnDemand(t *testing.T) {
	proctest.Need(t, "python3")
	out := fstab(t, `cat >/mnt/automount <<'END'
import ctypes, fcntl, os, struct, subprocess
packets, pipe = os.pipe()
os.setpgid(0, 0)
options = "fd=%d,pgrp=%d,minproto=5,maxproto=5,direct" % (pipe, os.getpgrp())
if ctypes.CDLL(None).mount(b"systemd-1", b"/mnt/x", b"autofs", 0, options.encode()) != 0:
    raise SystemExit("autofs is not mounted")
os.close(pipe)
root = os.open("/mnt/x", os.O_RDONLY)
open("/mnt/up", "w").close()
READY, FAIL = 0x9360, 0x9361
while packet := os.read(packets, 1024):
    token = struct.unpack("iiI", packet[:12])[2]
    failed = subprocess.run(["mount", "/mnt/x"]).returncode
    print("mount says", failed, flush=True)
    fcntl.ioctl(root, FAIL if failed else READY, token)
END
		line x-systemd.automount,api_key_file=/mnt/home/key,user=carol
		python3 /mnt/automount &
		wait_for test -e /mnt/up
		carol cat /mnt/x/team/f; umount /mnt/x
		carol cat /mnt/x/team/f; umount /mnt/x
		cp /mnt/home/key /mnt/other/key
		line x-systemd.automount,api_key_file=/mnt/other/key
		cat /mnt/x/team/f; umount /mnt/x
		for p in $(running); do ended $p; done
		rm /mnt/other/key
		if cat /mnt/x/team/f; then exit 1; fi`)
	once := `mounted .* on /mnt/x\nmount says 0\ncontent\n`
	want(t, out, once+once+once+"(?s:.*)mount says 3\ncat: .*No such file or directory")
}
