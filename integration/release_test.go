package integration

import (
	"archive/tar"
	"compress/gzip"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/integration/line"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/service/store/pgtest"
)

// A release is kept in testdata: what its programs wrote. Every later version reads it. A file of a release is never
// written anew.
var storeRelease = flag.String("store-release", "", "keep what the programs write, as that of a release such as 0.1.0")

// releases are the commits of those that are kept.
func releases() map[string]string {
	return map[string]string{"0.1.0": "d693089e131bf628c53903b3b171182889f16ab3"}
}

// storedAddress is where the service of an engine listens, here and later, because what clients know of a service is
// under its address.
func storedAddress(engine string) string {
	return map[string]string{"sqlite": "127.83.70.1:18370", "postgres": "127.83.70.2:18370"}[engine]
}

func storedFile(release, engine string) string {
	return filepath.Join("testdata", "release-"+release, engine+".tar.gz")
}

const mediumBytes = 70_000

// storedContent is the content of a file in blocks.
func storedContent() []byte {
	random, b := rand.New(rand.NewPCG(1, 2)), make([]byte, 2*format.MinBlockBytes+100)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// dumpFile is the text of a PostgreSQL database in the tree of a release.
const dumpFile = "database.sql"

// Data directory, archives, database and the state of a mount of each release are read, on both engines: files, their
// versions and their attributes, members, settings, saves that waited when the mount was killed, and the ledger.
func TestStoredRelease(t *testing.T) {
	proctest.Need(t, "mount")
	for _, engine := range []string{"sqlite", "postgres"} {
		for release := range releases() {
			t.Run(release+" "+engine, func(t *testing.T) {
				w := &world{t: t, bin: programs.Dir(t, "svcfs", "svcd"), dir: t.TempDir(), log: &safeBuffer{},
					addr: storedAddress(engine)}
				w.data = filepath.Join(w.dir, "data")
				if engine == "postgres" {
					proctest.Long(t)
					w.stores = []string{"--db", pgtest.Start(t).NewDatabase(t)}
				}
				if *storeRelease == release {
					w.writesRelease()
					w.packs(storedFile(release, engine))
					return
				}
				w.unpacks(storedFile(release, engine))
				w.readsRelease()
			})
		}
	}
}

// The client of each release works with the service of this version, and the client of this version with the service of
// the release.
func TestReleasesTalkToEachOther(t *testing.T) {
	proctest.Long(t)
	proctest.Need(t, "mount")
	now := programs.Dir(t, "svcfs", "svcd")
	for release, commit := range releases() {
		if exec.Command("git", "cat-file", "-e", commit).Run() != nil {
			t.Logf("this copy of the sources lacks the commit %s of the release %s", commit, release)
			continue
		}
		then := programsOf(t, commit)
		for name, bins := range map[string][2]string{"service": {then, now}, "client": {now, then}} {
			t.Run("the "+name+" of "+release, func(t *testing.T) {
				w := &world{t: t, bin: bins[0], dir: t.TempDir(), log: &safeBuffer{}, addr: ownHost() + ":0"}
				w.data = filepath.Join(w.dir, "data")
				w.mkdir("home")
				w.start()
				t.Cleanup(w.stop)
				alice, bob := w.account("alice", "1000"), w.account("bob", "10")
				w.bin = bins[1]
				alice.must("group", "create", "team")
				alice.must("group", "add", "team", bob.id)
				content := storedContent()
				a := alice.mount("a")
				write(t, a.path("team/whole"), content[:mediumBytes])
				write(t, a.path("team/blocks"), slices.Repeat(content, 5<<20/len(content)))
				shell(t, a.path("team"),
					"mkdir f; echo one >f/one; mv f g; echo two >>g/one; ln -s one g/link; sync -f .; rm whole")
				alice.must("sync", a.dir)
				b := bob.mount("b")
				want := fmt.Sprintf(".\n./blocks\n./g\n./g/link\n./g/one\none\ntwo\n%d\n",
					5<<20/len(content)*len(content))
				if got := shell(t, b.path("team"), "find . | sort; cat g/link; wc -c <blocks"); got != want {
					t.Errorf("the group has\n%s", got)
				}
				b.unmount()
				bob.must("ledger", "team", "--verify")
				bob.must("history", "team", "g/one")
				alice.must("restore", "--trash", "team", "whole")
				alice.must("group", "revoke", "team", bob.id)
				if out, code := bob.try("get", "team", "whole"); code == 0 {
					t.Errorf("who was revoked gets\n%s", out)
				}
				a.unmount()
			})
		}
	}
}

// programsOf builds the programs of a commit.
func programsOf(t *testing.T, commit string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	shell(t, dir, "git -C "+top(t)+" archive "+commit+" cmd fs sdk cache format service go.mod go.sum | tar x && "+
		"go build -o bin/ ./cmd/...")
	return filepath.Join(dir, "bin")
}

// top is the folder of the repository.
func top(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("..")
	ok(t, err)
	return dir
}

// writesRelease fills a service, and leaves a mount behind that was killed while the service was away.
func (w *world) writesRelease() {
	w.mkdir("home")
	w.start()
	alice, bob, carol := w.account("alice", "1000"), w.account("bob", "1000"), w.account("carol", "10")
	alice.must("group", "create", "team")
	alice.must("group", "add", "team", bob.id)
	alice.must("group", "add", "team", carol.id)
	from := w.mkdir("from")
	write(w.t, filepath.Join(from, "small.txt"), []byte("first"))
	write(w.t, filepath.Join(from, "medium"), storedContent()[:mediumBytes])
	write(w.t, filepath.Join(from, "run"), []byte("#!/bin/sh\necho it runs\n"))
	ok(w.t, os.Chmod(filepath.Join(from, "run"), 0o755))
	ok(w.t, os.Symlink("small.txt", filepath.Join(from, "link")))
	a := alice.mount("a", "--outbox")
	shell(w.t, from, "cp -a . "+a.path("team")+" && mkdir "+a.path("team/empty")+" "+a.path("team/old")+
		" && mv "+a.path("team/old")+" "+a.path("team/new"))
	alice.must("sync", a.dir)
	write(w.t, a.path("team/small.txt"), []byte("second"))
	write(w.t, a.path("team/removed"), []byte("removed"))
	alice.must("sync", a.dir)
	ok(w.t, os.Remove(a.path("team/removed")))
	g := bob.client(w.t, w.line(line.Shape{})).Group("team")
	u, err := g.BeginBlocks(w.t.Context(), nil, format.MinBlockBytes)
	ok(w.t, err)
	content := storedContent()
	blocks := format.Extents{{Count: 3}}
	ok(w.t, u.PutPart(w.t.Context(), blocks, func(i int64, into []byte) (int, error) {
		return copy(into, content[i*format.MinBlockBytes:]), nil
	}))
	_, err = u.Finish(w.t.Context(), "blocks", int64(len(content)), sdk.ComputeHash(content))
	ok(w.t, err)
	w.operates("export", filepath.Join(w.dir, "full"))
	alice.must("group", "revoke", "team", carol.id)
	alice.must("group", "config", "team", "versions", "5", "--yes")
	write(w.t, filepath.Join(from, "later"), []byte("first"))
	alice.must("put", "team", filepath.Join(from, "later"))
	w.operates("export", filepath.Join(w.dir, "increment"), "--since", filepath.Join(w.dir, "full"))
	w.stop()
	write(w.t, a.path("team/waits"), []byte("it waits"))
	a.kill()
}

// operates runs a command of the operator.
func (w *world) operates(args ...string) string {
	w.t.Helper()
	out, err := w.svcd(args...)
	if err != nil {
		w.t.Fatalf("svcd %v: %v\n%s", args, err, out)
	}
	return out
}

// storedPerson is an account of a release.
func (w *world) storedPerson(name string) *person {
	p := &person{w: w, id: name + ".svc.testnet", keyFile: filepath.Join(w.dir, "keys", name)}
	p.key = strings.TrimSpace(string(read(w.t, p.keyFile)))
	return p
}

// readsRelease reads what writesRelease wrote, and goes on with it.
func (w *world) readsRelease() {
	w.operates("audit")
	w.operates("verify")
	w.start()
	w.t.Cleanup(w.stop)
	alice := w.storedPerson("alice")
	a := alice.mount("again", "--outbox")
	alice.must("sync", a.dir)
	w.isRelease("waits", "it waits")
	w.stop()

	other := &world{t: w.t, bin: w.bin, dir: w.dir, log: w.log, addr: ownHost() + ":0",
		data: filepath.Join(w.dir, "imported")}
	if len(w.stores) > 0 {
		other.stores = []string{"--db", pgtest.Start(w.t).NewDatabase(w.t)}
	}
	w.mkdir("imported")
	write(w.t, filepath.Join(other.data, "master.key"), read(w.t, filepath.Join(w.data, "master.key")))
	other.operates("import", filepath.Join(w.dir, "full"), filepath.Join(w.dir, "increment"))
	other.operates("audit")
	other.start()
	w.t.Cleanup(other.stop)
	other.isRelease("later", "first")
}

// isRelease compares the group with what writesRelease wrote, and one more file.
func (w *world) isRelease(name, want string) {
	w.t.Helper()
	bob := w.storedPerson("bob")
	if _, code := bob.try("ledger", "team", "--verify"); code != 0 {
		w.t.Errorf("the ledger of the group: exit code %d", code)
	}
	content := string(storedContent())
	for file, want := range map[string]string{"small.txt": "second", "medium": content[:mediumBytes],
		"run": "#!/bin/sh\necho it runs\n", "blocks": content, "later": "first", name: want} {
		out, err := bob.command("get", "team", file).Output()
		if err != nil || string(out) != want {
			w.t.Errorf("%s: %d bytes, %v", file, len(out), err)
		}
	}
	b := bob.mount("b" + filepath.Base(w.data))
	defer b.unmount()
	if got := strings.TrimSpace(shell(w.t, b.path("team"), "ls -F; readlink link")); got !=
		strings.Join(slices.Sorted(slices.Values(append([]string{"blocks", "empty/", "later", "link@", "medium", "new/",
			"run*", "small.txt"}, slices.Collect(only(name, "waits"))...))), "\n")+"\nsmall.txt" {
		w.t.Errorf("the folder has\n%s", got)
	}
	if got := bob.must("history", "team", "small.txt"); strings.Count(got, "alice") < 2 {
		w.t.Errorf("the versions of a file are\n%s", got)
	}
	if out, code := w.storedPerson("carol").try("ls", "team"); code == 0 {
		w.t.Errorf("who was revoked lists\n%s", out)
	}
}

// only is a name, if it is another one.
func only(name, is string) func(func(string) bool) {
	return func(yield func(string) bool) {
		if name == is {
			yield(name)
		}
	}
}

// packs keeps the tree of a release, and its database.
func (w *world) packs(file string) {
	if len(w.stores) > 0 {
		dump := exec.Command("pg_dump", "--inserts", "--no-owner", "--dbname", w.stores[1])
		out, err := dump.Output()
		ok(w.t, err)
		write(w.t, filepath.Join(w.dir, dumpFile), out)
	}
	ok(w.t, os.MkdirAll(filepath.Dir(file), 0o755))
	f, err := os.Create(file)
	ok(w.t, err)
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	ok(w.t, err)
	out := tar.NewWriter(z)
	ok(w.t, filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(w.dir, path)
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(name, "from/") || name == "data/held-back" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		err = out.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(raw))})
		_, other := out.Write(raw)
		return errors.Join(err, other)
	}))
	ok(w.t, errors.Join(out.Close(), z.Close(), f.Close()))
}

func (w *world) unpacks(file string) {
	f, err := os.Open(file)
	ok(w.t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	ok(w.t, err)
	for in := tar.NewReader(z); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		ok(w.t, err)
		raw, err := io.ReadAll(in)
		ok(w.t, err)
		w.mkdir(filepath.Dir(head.Name))
		write(w.t, filepath.Join(w.dir, head.Name), raw)
	}
	if len(w.stores) == 0 {
		return
	}
	db, err := sql.Open("pgx", w.stores[1]+"&default_query_exec_mode=simple_protocol")
	ok(w.t, err)
	defer db.Close()
	var text []string
	for line := range strings.Lines(string(read(w.t, filepath.Join(w.dir, dumpFile)))) {
		if !strings.HasPrefix(line, `\`) { // what psql alone understands
			text = append(text, line)
		}
	}
	_, err = db.ExecContext(w.t.Context(), strings.Join(text, ""))
	if err != nil {
		w.t.Fatal(fmt.Errorf("restore the database: %w", err))
	}
}
