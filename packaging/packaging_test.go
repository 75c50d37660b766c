package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
)

// copySources copies the tracked files of the sources, so that the folder differs.
func copySources(t *testing.T, to string) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && (name == ".git" || name == "bin" || name == "dist" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		return os.Link(path, filepath.Join(to, name))
	})
	if err == nil {
		return
	}
	if out, err := exec.Command("cp", "-r", root+"/.", to).CombinedOutput(); err != nil { // another disk
		t.Fatalf("%v: %s", err, out)
	}
}

// Two builds in different folders are equal byte for byte, and hold what they should.
func TestTwoBuildsAreEqual(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := private.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var outs [2]string
	for i := range outs {
		root := filepath.Join(t.TempDir(), strings.Repeat("x", i), "sources")
		if err := os.MkdirAll(root, 0o755); err != nil {
			t.Fatal(err)
		}
		copySources(t, root)
		outs[i] = t.TempDir()
		j := job{root: root, out: outs[i], version: "1.2.3", made: time.Unix(1_600_000_000, 0).UTC(), stamp: "false",
			arches: []string{"amd64"}, formats: []string{formatTar, formatDeb, formatRPM, formatOCI}, key: key}
		if err := j.run(); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(outs[0])
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
		first, err := os.ReadFile(filepath.Join(outs[0], f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		second, err := os.ReadFile(filepath.Join(outs[1], f.Name()))
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("%s differs: %v", f.Name(), err)
		}
	}
	const want = "SHA256SUMS SHA256SUMS.minisig svcd-1.2.3-1.x86_64.rpm svcd_1.2.3_amd64.cdx.json " +
		"svcd_1.2.3_amd64.deb svcd_1.2.3_linux_amd64.tar.gz svcd_1.2.3_oci.tar svcfs-1.2.3-1.x86_64.rpm " +
		"svcfs-desktop-1.2.3-1.noarch.rpm svcfs-desktop_1.2.3_all.deb svcfs-desktop_1.2.3_linux_all.tar.gz " +
		"svcfs_1.2.3_amd64.cdx.json svcfs_1.2.3_amd64.deb svcfs_1.2.3_linux_amd64.tar.gz " +
		"svcvault_1.2.3_amd64.cdx.json"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("made\n%s\nwant\n%s", got, want)
	}
	checkSums(t, outs[0], public)
	checkBill(t, filepath.Join(outs[0], "svcfs_1.2.3_amd64.cdx.json"))
	checkTar(t, filepath.Join(outs[0], "svcfs_1.2.3_linux_amd64.tar.gz"))
	checkVersions(t, outs[0])
}

// What no signature covers says so in its name; the hashes are called as ever.
func TestUnsignedFilesSaySo(t *testing.T) {
	j := job{out: t.TempDir(), version: "1.2.3~git1"}
	for _, name := range []string{"svcfs_1.2.3~git1_amd64.deb", "svcfs-1.2.3~git1-1.x86_64.rpm",
		"svcd_1.2.3~git1_oci.tar"} {
		if err := j.write(name, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.sum(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(j.out)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	const want = "SHA256SUMS svcd_1.2.3~git1-unsigned_oci.tar svcfs-1.2.3~git1-unsigned-1.x86_64.rpm " +
		"svcfs_1.2.3~git1-unsigned_amd64.deb"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("made %s, want %s", got, want)
	}
}

func checkSums(t *testing.T, dir string, public minisign.PublicKey) {
	t.Helper()
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	signature, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS.minisig"))
	if err != nil || !minisign.Verify(public, sums, signature) {
		t.Errorf("the signature is none of the hashes: %v", err)
	}
	cmd := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The bill names each library that the program needs, with its version.
func checkBill(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b bill
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, c := range b.Components {
		found = found || c.Name == "github.com/hanwen/go-fuse/v2" &&
			strings.HasPrefix(c.PURL, "pkg:golang/github.com/hanwen/go-fuse/v2@v2.")
		if c.Version == "" {
			t.Errorf("%s has no version", c.Name)
		}
	}
	if !found || len(b.Metadata.Component.Hashes) != 1 {
		t.Errorf("the bill of %s is not whole", b.Metadata.Component.Name)
	}
}

// The tar has what is not Debian's alone, and its program runs.
func checkTar(t *testing.T, file string) {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("tar", "xzf", file, "-C", dir, "--strip-components=1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"usr/share/man/man1/svcfs.1.gz", "usr/share/bash-completion/completions/svcfs",
		"usr/lib/systemd/user/svcfs@.service", "usr/share/doc/svcfs/copyright"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"mount.svcfs", "mount.fuse.svcfs"} {
		if target, err := os.Readlink(filepath.Join(dir, "usr/sbin", name)); target != "../bin/svcfs" {
			t.Errorf("%s leads to %q: %v", name, target, err)
		}
	}
	unit, err := os.ReadFile(filepath.Join(dir, "usr/lib/systemd/user/svcfs@.service"))
	if err != nil || !bytes.Contains(unit, []byte("ExecStart=/usr/bin/svcfs mount")) ||
		bytes.Contains(unit, []byte("/usr/local")) {
		t.Errorf("the unit starts another program: %v\n%s", err, unit)
	}
}

// The unit of one service gives svcd no settings: svcd finds its file and its data by itself.
func TestUnitOfOneService(t *testing.T) {
	template, err := os.ReadFile("../service/examples/svcd.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := single(installed(template))
	if !bytes.Contains(unit, []byte("\nExecStart=/usr/bin/svcd serve\n")) || bytes.Contains(unit, []byte("%i")) ||
		bytes.Contains(unit, []byte("svcd@")) {
		t.Errorf("the unit is\n%s", unit)
	}
}
