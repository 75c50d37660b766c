package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
)

func TestHelperArgs(t *testing.T) {
	for _, tc := range []struct{ args, want, refused string }{
		{"alice.svc.testnet /mnt/team", "mount --background --account=alice.svc.testnet -- /mnt/team", ""},
		{"svcfs:alice.near /mnt -o rw", "mount --background --account=alice.near --options=rw -- /mnt", ""},
		{"svcfs /mnt -s -n -v", "mount --background -- /mnt", ""},
		{"alice /mnt -o noauto,user,_netdev,nofail,x-systemd.automount,x-systemd.idle-timeout=5min,nosuid,nodev",
			"mount --background --account=alice -- /mnt", ""},
		{"alice /mnt -t svcfs -N 4 -o ro,allow_other,uid=1000,gid=100,umask=027",
			"mount --background --account=alice --options=ro --options=allow_other --options=uid=1000 " +
				"--options=gid=100 --umask=027 -- /mnt", ""},
		{"alice /mnt -o url=https://files.example.org:8443,api_key_file=/etc/svcfs/key,idle_unmount=10m,allow_delete",
			"mount --background --account=alice --url=https://files.example.org:8443 --api-key-file=/etc/svcfs/key " +
				"--idle-unmount=10m --allow-delete -- /mnt", ""},
		{"alice /mnt -o user,noexec,nosuid,nodev,own_all",
			"mount --background --account=alice --options=noexec --own-all -- /mnt", ""},
		{"alice /mnt -o noexec,exec,foreign_uid=1234",
			"mount --background --account=alice --options=noexec --options=exec --foreign-uid=1234 -- /mnt", ""},
		{"alice /mnt -f -o anything", "", ""},
		{"alice -leading/dash", "", "got 1 argument"},
		{"alice", "", "got 1 argument"},
		{"alice /mnt more", "", "got 3 arguments"},
		{"alice /mnt -o", "", "-o wants a value"},
		{"alice /mnt -o api_key=svc_sk_x", "", "unknown mount option"},
		{"alice /mnt -o ready-fd=3", "", "unknown mount option"},
		{"alice /mnt -o remount,ro", "", "cannot be remounted"},
		{"alice /mnt -o budget", "", "mount option"},
		{"alice /mnt -o allow_mkdir=yes", "", "mount option"},
		{"alice /mnt -o api_key_file=key", "", "api_key_file=key"},
	} {
		call, err := parseHelperCall(strings.Fields(tc.args))
		var got []string
		if err == nil && !call.pretend {
			got, err = call.args()
		}
		switch {
		case tc.refused != "":
			if err == nil || !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("%s: %v, want %q", tc.args, err, tc.refused)
			}
		case err != nil || !slices.Equal(got, strings.Fields(tc.want)):
			t.Errorf("%s:\n got %q, %v\nwant %q", tc.args, got, err, strings.Fields(tc.want))
		}
	}
	for program, want := range map[string]bool{"/sbin/mount.svcfs": true, "mount.fuse.svcfs": true,
		"/usr/bin/svcfs": false, "mount": false} {
		if isMountHelper(program) != want {
			t.Errorf("%s: %v", program, !want)
		}
	}
}

// Whose mount root makes it, and where there is nobody to become.
func TestHelperOwner(t *testing.T) {
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	own := nobody.Uid + ":" + nobody.Gid
	for _, tc := range []struct{ options, want, refused string }{
		{"ro,allow_other,user,noauto", "", ""},
		{"uid=0,gid=0", "", ""},
		{"user=root", "", ""},
		{"gid=7", "", ""},
		{"uid=" + nobody.Uid, own, ""},
		{"user=nobody", own, ""},
		{"user=nobody,gid=7", nobody.Uid + ":7", ""},
		{"uid=4243,gid=7,user=nobody", "4243:7", ""},
		{"uid=4243,uid=4244,gid=7", "4244:7", ""},
		{"uid=4243", "", "has no group"},
		{"user=nobody at all", "", "find the user of this mount"},
		{"uid=nobody", "", "find the user of this mount"},
		{"uid=4243,gid=x", "", "user or group"},
		{"uid=4294967295,gid=1", "", "user or group"},
	} {
		call, err := parseHelperCall([]string{"alice", "/mnt", "-o", tc.options})
		if err != nil {
			t.Fatal(err)
		}
		who, err := call.owner()
		got := ""
		if who.uid != 0 {
			got = fmt.Sprintf("%d:%d", who.uid, who.gid)
		}
		switch {
		case tc.refused != "":
			if err == nil || !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("%s: %v, want %q", tc.options, err, tc.refused)
			}
		case err != nil || got != tc.want:
			t.Errorf("%s: %q, %v, want %q", tc.options, got, err, tc.want)
		}
	}
}

// The samples say only what the program understands.
func TestSystemdSamples(t *testing.T) {
	text, err := os.ReadFile("systemd/mnt-team.mount")
	if err != nil {
		t.Fatal(err)
	}
	var lists []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if options, ok := strings.CutPrefix(line, "Options="); ok {
			lists = append(lists, options)
		}
		if fields := strings.Fields(line); len(fields) == 7 && fields[3] == "svcfs" { // "#", then a line of fstab
			lists = append(lists, fields[4])
		}
	}
	if len(lists) != 3 {
		t.Fatalf("found %q", lists)
	}
	for _, list := range lists {
		call, err := parseHelperCall([]string{"alice.svc.testnet", "/mnt/team", "-o", list})
		if err == nil {
			_, err = call.args()
		}
		if err != nil {
			t.Errorf("%s: %v", list, err)
		}
	}
}

// systemd finds nothing to say about the samples.
func TestSystemdVerifiesTheSamples(t *testing.T) {
	proctest.Need(t, "systemd-analyze")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, as := range map[string]string{"svcfs@.service": "svcfs@team.service", "mnt-team.mount": "",
		"mnt-team.automount": ""} {
		text, err := os.ReadFile(filepath.Join("systemd", name))
		if err != nil {
			t.Fatal(err)
		}
		if as == "" {
			as = name
		}
		ok(t, os.WriteFile(filepath.Join(dir, as),
			[]byte(strings.ReplaceAll(string(text), "/usr/local/bin/svcfs", program)), 0o600))
	}
	for _, args := range [][]string{{"--user", "svcfs@team.service"}, {"mnt-team.mount", "mnt-team.automount"}} {
		cmd := exec.Command("systemd-analyze", append([]string{"verify", "--man=no"}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
		for i, arg := range cmd.Args {
			if strings.Contains(arg, ".") {
				cmd.Args[i] = "./" + arg
			}
		}
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}
