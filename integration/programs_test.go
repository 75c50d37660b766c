package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
)

// program is something people run on a mount. The script runs in a folder of its
// own that holds a file f with the line "one"; SRC is a folder outside.
type program struct {
	name    string
	quick   bool   // make test runs it too
	tool    string // what must be installed
	script  string
	want    string // pattern of what it prints, and then of what f holds
	uploads int    // charged for it; 0 with most: see there
	files   int    // that it leaves of what was uploaded, links too
	most    int    // uploads for each of the files, where the versions of the program differ
	again   string // another script, which prints something in a new mount and in one that was there all the time
	refused string // errno, when the mount refuses something of it
	asRoot  bool   // only root can run it
	note    string // for the table; says why it saves a file more than once
}

const vimSave = `vim -u NONE -N -i NONE -es -c 'set %s writebackup backup swapfile' -c '%%s/one/two/' -c wq f`

// nano is typed into: text, ^O, Enter, ^X.
const nanoSave = `(until [ -e .typing ]; do sleep 0.05; done; printf 'two '; sleep 0.3; printf '\017\r'; sleep 0.5; printf '\030') |
	TERM=xterm script -qec 'touch .typing; exec nano %s f' /dev/null >/dev/null; rm .typing`

// LibreOffice keeps its profile in $OUT. Its launcher looks for Java in vain.
const (
	officeConvert = `HOME=$OUT soffice -env:UserInstallation=file://$OUT/profile --headless --convert-to %s >/dev/null 2>&1`
	officeSave    = `HOME=$OUT /usr/bin/python3 $TESTDATA/office.py %s $OUT/profile 2>/dev/null`
	unoModule     = "/usr/lib/python3/dist-packages/uno.py"
)

func programsTable() []program {
	return []program{
		{name: "vim, backupcopy=yes", tool: "vim", script: fmt.Sprintf(vimSave, "backupcopy=yes"), want: "two",
			uploads: 1, files: 1},
		{name: "vim, backupcopy=no", quick: true, tool: "vim", script: fmt.Sprintf(vimSave, "backupcopy=no"),
			want: "two", uploads: 1, files: 1},
		{name: "vim, backupcopy=auto", tool: "vim", script: fmt.Sprintf(vimSave, "backupcopy=auto"), want: "two",
			uploads: 1, files: 1},
		{name: "nano", tool: "nano",
			script: "touch .typing.tmp; " + strings.ReplaceAll(fmt.Sprintf(nanoSave, ""), ".typing", "typing.tmp"),
			want:   "two one", uploads: 1, files: 1},
		{name: "nano with a backup", tool: "nano",
			script: strings.ReplaceAll(fmt.Sprintf(nanoSave, "-B"), ".typing", "typing.tmp"),
			want:   "two one", uploads: 1, files: 1},
		{name: "emacs", tool: "emacs",
			script: `emacs -Q -nw --batch f --eval '(progn (goto-char (point-max)) (insert "two\n") (save-buffer))' 2>&1 | grep -v Saving; true`,
			want:   "one\ntwo", uploads: 1, files: 1, note: "its lock file is a symbolic link, of this mount alone"},
		{name: "sed -i", quick: true, tool: "sed", script: "sed -i s/one/two/ f", want: "two", uploads: 1, files: 1},
		{name: "perl -pi.bak", tool: "perl",
			script: "perl -pi.bak -e s/one/two/ f; cat f.bak",
			want:   "one\n two", uploads: 1, files: 1, note: "the original is renamed by the service"},
		{name: "patch", tool: "patch", script: `printf -- '--- f\n+++ f\n@@ -1 +1 @@\n-one\n+two\n' | patch -s f`,
			want: "two", uploads: 1, files: 1},
		{name: "cp -a of a tree", tool: "cp", script: "cp -a $SRC d; diff -r $SRC d; cp -a d e; diff -r d e",
			want: "one", uploads: 6, files: 6},
		{name: "cp over a file", quick: true, tool: "cp", script: "cp $SRC/x f; cp $SRC/x f", want: "xx", uploads: 1,
			files: 1},
		{name: "mv", quick: true, tool: "mv", script: "mv f g; mv g h; mv h f; mkdir d; mv f d/f; mv d e; mv e/f f",
			want: "one", uploads: 0, files: 0},
		{name: "install", quick: true, tool: "install", script: "install -m 755 f g; stat -c %a g", want: "700\n one",
			uploads: 1, files: 1},
		{name: "tee", tool: "tee", script: "echo two | tee f g", want: "two\n two", uploads: 2, files: 2},
		{name: "dd", quick: true, tool: "dd",
			script: "dd if=/dev/zero of=f bs=4k count=3 seek=2 conv=notrunc,fsync status=none; stat -c %s f; " +
				"echo two >f",
			want: "20480\n two", uploads: 2, files: 1, note: "two commands, a save each"},
		{name: "dd oflag=sync", tool: "dd",
			script: "dd if=/dev/zero of=g bs=4k count=3 oflag=sync status=none",
			want:   "one", uploads: 3, files: 1, note: "every write is a save"},
		{name: "truncate", tool: "truncate", script: "truncate -s 100 f; truncate -s 3 f; cat f", want: "one",
			uploads: 2, files: 1, note: "two commands, a save each"},
		{name: "rsync", quick: true, tool: "rsync",
			script: "rsync -a $SRC/ d/; rsync -a $SRC/ d/; diff -r $SRC d; rsync --checksum $SRC/x f",
			want:   "xx", uploads: 4, files: 4},
		{name: "rsync --inplace", tool: "rsync",
			script: "rsync --inplace --checksum $SRC/x f; rsync --inplace --checksum $SRC/x f",
			want:   "xx", uploads: 1, files: 1},
		{name: "tar", quick: true, tool: "tar",
			script: "tar -C $SRC -cf - . | tar -xf -; diff $SRC/x x; tar -cf t.tar x y; tar -tf t.tar",
			want:   "x\ny\n one", uploads: 4, files: 4},
		{name: "zip, unzip", tool: "zip", script: "zip -q s.zip f; unzip -q s.zip -d out; cat out/f", want: "one\n one",
			uploads: 2, files: 2},
		{name: "zip, changing an archive", tool: "zip",
			script: "zip -q s.zip f; cp $SRC/x f; zip -q s.zip f 2>&1 | head -1; ls | grep -v ^zi",
			want:   "f\ns.zip\n xx", uploads: 3, files: 2, note: "the archive, twice: two commands"},
		{name: "gzip -k", tool: "gzip", script: "gzip -k f; gzip -dc f.gz", want: "one\n one", uploads: 1, files: 1},
		{name: "gzip", quick: true, tool: "gzip",
			script: "gzip f; ls; gunzip f.gz; ls",
			want:   "f.gz\nf\n one", uploads: 2, files: 1,
			note: "two commands: f.gz, then f again; the originals go to the trash"},
		{name: "git clone, commit, fsck", tool: "git",
			script: `git clone -q $SRC/bare.git wc; cd wc; git config user.name a; git config user.email a@example.org
			cp ../f f; git add f; git commit -qm two; git status --short; git log --format=%s; git fsck --strict; git status --short`, want: "two\none\n one", most: 2,
			note: "one for every file of .git and every save of one"},
		{name: "git commit, merge, gc", tool: "git",
			script: `git init -q wc; cd wc; git config user.name a; git config user.email a@example.org
			for b in main side; do git checkout -q -b $b 2>/dev/null; echo $b >$b; git add $b; git commit -qm $b; done
			git checkout -q main; echo more >more; git add more; git commit -qm more; git merge -q side -m merged; git gc -q --prune=now
			git fsck --strict; git status --short; git log --format=%s | wc -l`, want: "4\n one", most: 3,
			note: "each save of the settings, the index, the logs and the branches; gc removes what it packs"},
		{name: "git clone --bare, gc", tool: "git",
			script: `git clone -q --bare $SRC/bare.git r.git; git -C r.git gc -q; find r.git/refs -type f; git -C r.git log --format=%s`, want: "one\n one", most: 2,
			again: "git -C r.git log --format=%s && git -C r.git fsck --strict",
			note:  "each save of the settings and of the branches; gc removes what it packs"},
		{name: "a Maildir", tool: "python3",
			script: `python3 -c 'import mailbox; m = mailbox.Maildir("m"); m.add("Subject: one\n\n"); print(len(m), *sorted(__import__("os").listdir("m")))'`, want: "1 cur new tmp\n one", uploads: 1, files: 1,
			again: `python3 -c 'import mailbox; print(len(mailbox.Maildir("m", create=False)))'`},
		{name: "make, make clean, make", tool: "make",
			script: `printf 'int f(void);\nint main(void) { return f(); }\n' >a.c; printf 'int f(void) { return 0; }\n' >b.c
			printf 'p: a.o b.o\n\t@gcc -o p a.o b.o\n.c.o:\n\t@gcc -c $<\nclean:\n\t@rm -f p *.o\n' >Makefile
			make && ./p && make clean && ls && make && make -q && echo built`, want: "Makefile\na.c\nb.c\nf\nbuilt\n one",
			uploads: 9, files: 6, note: "three of them built twice; make clean puts files into the trash"},
		{name: "rsync -a --delete", tool: "rsync",
			script: "rsync -a --delete $SRC/ d/; echo x >d/extra; rsync -a --delete --stats $SRC/ d/ | grep -o " +
				"'files transferred.*'; ls d",
			want: "files transferred: 0\nsub\nx\ny\n one", uploads: 4, files: 3,
			note: "one of a file that rsync then puts into the trash"},
		{name: "restic init, backup, forget, prune, check", tool: "restic",
			script: `export RESTIC_PASSWORD=x; restic() { command restic -q --no-cache -r r "$@" 2>/dev/null; }; cp -r $SRC $OUT/restic; restic init; restic backup $OUT/restic
			echo more >$OUT/restic/more; restic backup $OUT/restic; restic forget --keep-last 1 --prune; restic check; restic dump latest $OUT/restic/more`, want: "more\n one", most: 3,
			again: "RESTIC_PASSWORD=x restic -q --no-cache --no-lock -r r check 2>&1 && echo whole",
			note:  "its locks, which other machines shall see; what prune replaces goes to the trash"},
		{name: "borg init, create, prune, compact, check", tool: "borg",
			script: `export BORG_BASE_DIR=$OUT BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes; cp -r $SRC $OUT/borg; borg init -e none r; borg create r::1 $OUT/borg
			echo more >$OUT/borg/more; borg create r::2 $OUT/borg; borg prune --keep-last 1 r; borg compact r; borg check r; borg list --short r`, want: "2\n one", most: 6,
			note: "each transaction saves its segments, its index and its hints, and each command its lock; the " +
				"earlier ones go to the trash"},
		{name: "7zz, changing an archive", tool: "7zz",
			script: "7zz a -bso0 -bsp0 s.7z f; cp $SRC/x x; 7zz a -bso0 -bsp0 s.7z x; 7zz e -so s.7z f x; ls",
			want:   "one\nxx\nf\ns.7z\nx\n one", uploads: 3, files: 2, note: "the archive, twice: two commands"},
		{name: "Samba: put, rename, get", tool: "/usr/sbin/smbd", script: "bash $TESTDATA/samba.sh", want: "xx\n one",
			uploads: 1, files: 1, asRoot: true, note: "smbd runs as root"},
		{name: "overlayfs, the upper layer", tool: "unshare", refused: "EINVAL",
			script: `mkdir up work merged low; unshare -m $([ $(id -u) = 0 ] || echo --map-root-user) mount -t overlay overlay -o lowerdir=low,upperdir=up,workdir=work merged 2>&1 | grep -o 'wrong fs type'; rmdir low merged`,
			want:   "wrong fs type\n one", note: "the kernel asks an upper layer for RENAME_WHITEOUT, which is a " +
				"device; a mount can be the lower layer"},
		{name: "pipes, sockets, hard links", tool: "mkfifo", refused: "EPERM",
			script: `mkfifo p 2>&1 | grep -o 'Operation not permitted'; ln f g 2>&1 | grep -o 'Operation not permitted'
			python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('s')" 2>&1 | grep -o 'Operation not permitted'; cp f g; ls`,
			want: "Operation not permitted\nOperation not permitted\nOperation not permitted\nf\ng\n one", uploads: 1,
			files: 1,
			note:  "the ledger has no such things: programs that fall back to a copy work, such as git and borg"},
		{name: "sqlite3, journal in memory", tool: "sqlite3",
			script: "sqlite3 f.db 'pragma journal_mode=memory; create table t(a); insert into t values(7); select * " +
				"from t'",
			want: "memory\n7\n one", uploads: 2, files: 1, note: "one for each transaction"},
		{name: "sqlite3, rollback journal", quick: true, tool: "sqlite3",
			script: "sqlite3 g.db 'create table t(a); insert into t values(7); select * from t'; ls",
			want:   "7\nf\ng.db\n one", uploads: 2, files: 1,
			note: "one for each transaction; the journal stays in the mount"},
		{name: "sqlite3, one transaction", tool: "sqlite3",
			script: "sqlite3 g.db 'begin; create table t(a); insert into t values(7); insert into t values(8); " +
				"commit; select sum(a) from t'",
			want: "15\n one", uploads: 1, files: 1},
		{name: "sqlite3, write-ahead log", tool: "sqlite3",
			script: "sqlite3 g.db 'pragma journal_mode=wal; create table t(a); insert into t values(7); select * " +
				"from t'; ls",
			want: "wal\n7\nf\ng.db\n one", uploads: 5, files: 1,
			note: "one of the log for its beginning and for each transaction, two of the database for the change of " +
				"mode and at the end"},
		{name: "python sqlite3, journals that stay", tool: "python3", script: `python3 -c "
import sqlite3
for mode in 'persist', 'truncate':
    c = sqlite3.connect(mode + '.db'); c.execute('pragma journal_mode=' + mode)
    c.execute('create table t(a)'); c.executemany('insert into t values(?)', [(i,) for i in range(5000)]); c.commit()
    print(c.execute('select count(*) from t').fetchone()[0])"; ls | grep -c journal`,
			want: "5000\n5000\n2\n one", uploads: 4, files: 2,
			note: "one for each transaction; journals that stay are this mount's alone"},
		{name: "python mmap, shared and written", quick: true, tool: "python3", script: `python3 -c "
import mmap
f = open('f', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0:3] = b'TWO'; m.flush(); m.close(); f.close()"`, want: "TWO", uploads: 1, files: 1},
		{name: "python shutil", tool: "python3", script: `python3 -c "
import shutil
shutil.copy2('f', 'g'); shutil.move('g', 'h')"; cat h`, want: "one\n one", uploads: 1, files: 1},
		{name: "gio list, cat, info, copy, save", tool: "gio",
			script: "gio list; gio cat f; gio info -a standard::size f | grep ::; gio copy f g; echo two | gio save f",
			want:   "f\none\n  standard::size: 4\n two", uploads: 2, files: 2},
		{name: "inotifywait", tool: "inotifywait",
			script: `inotifywait -q -e close_write --timeout 20 --format %e f >seen.tmp 2>&1 & until [ "$(cat /proc/$!/wchan 2>/dev/null)" != 0 ] && grep -q inotify /proc/$!/fdinfo/3 2>/dev/null; do sleep 0.05; done
			echo two >f; wait; cat seen.tmp; rm seen.tmp`, want: "CLOSE_WRITE,CLOSE\n two", uploads: 1, files: 1},
		{name: "ffmpeg", tool: "ffmpeg",
			script: "ffmpeg -v error -f lavfi -i testsrc=duration=2:size=64x64:rate=10 -y o.mp4; ffmpeg -v error -ss " +
				"1 -i o.mp4 -f null - && echo played",
			want: "played\n one", uploads: 1, files: 1},
		{name: "ImageMagick", tool: "convert",
			script: "convert -size 32x32 xc:red o.png; convert o.png -resize 50% o.jpg; identify o.jpg | cut -d' " +
				"' -f1-3",
			want: "o.jpg JPEG 16x16\n one", uploads: 2, files: 2},
		{name: "gio trash", tool: "gio",
			script: "mkdir d; echo two >d/g; gio trash f d; ls; echo one >f",
			want:   "one", uploads: 2, files: 1,
			note: "to the trash of the group, folders too; one of the two uploads goes there"},
		{name: "gio remove", tool: "gio",
			script: "gio remove f; ls; echo one >f",
			want:   "one", uploads: 1, files: 1, note: "as rm: to the trash of the group"},
		{name: "gio copy in and out, mkdir, move, rename", tool: "gio",
			script: "gio copy $SRC/x .; gio copy x $OUT/back; cat $OUT/back; gio mkdir d; gio move x d/; gio rename " +
				"d/x y >/dev/null; cat d/y",
			want: "xx\nxx\n one", uploads: 1, files: 1, note: "what drag and drop does"},
		{name: "hidden files and lock files", tool: "ls",
			script: "echo a >.hidden; echo me >'.~lock.f#'; set -o noclobber; (echo you >'.~lock.f#') 2>&1 | grep -o " +
				"'cannot overwrite'; ls; ls -A; rm '.~lock.f#'",
			want: "cannot overwrite\nf\n.hidden\n.~lock.f#\nf\n one", uploads: 1, files: 1,
			note: "lock files are this mount's alone"},
		{name: "LibreOffice, converting", tool: "soffice",
			script: "cp f doc.txt; " + fmt.Sprintf(officeConvert, "odt doc.txt") + "; " +
				fmt.Sprintf(officeConvert, "pdf doc.odt") + "; head -c 5 doc.pdf; echo; ls -A",
			want: "%PDF-\ndoc.odt\ndoc.pdf\ndoc.txt\nf\n one", uploads: 3, files: 3, note: "one for each file"},
		{name: "LibreOffice, Save", tool: unoModule,
			script: "cp f doc.txt; " + fmt.Sprintf(officeConvert, "odt doc.txt") + "; " +
				fmt.Sprintf(officeSave, "doc.odt two") + "; ls -A",
			want: "locked writable\nunlocked\ndoc.odt\ndoc.txt\nf\n one", uploads: 3, files: 2,
			note: "doc.odt is converted, then saved; its lock file stays in the mount"},
		{name: "ln -s, ln -sf", tool: "ln",
			script: "ln -s nowhere l; ln -sf f l; readlink l; cat l; ln -s f m; rm m; sync .; mkdir d; ln -s d e; ls " +
				"e/; find -L . -samefile f | sort; rm -r e",
			want: "f\none\n./f\n./l\n one", uploads: 1, files: 1, note: "a link that does not stay costs nothing"},
		{name: "cp -a, rsync, tar of links", tool: "rsync",
			script: "mkdir d h; ln -s ../f d/l; cp -a d e; rsync -a d/ g/; tar -cf - d | tar -C h -xf -; rsync -a d/ " +
				"g/; readlink e/l g/l h/d/l; sync d e g h/d",
			want: "../f\n../f\n../f\n one", uploads: 4, files: 4},
		{name: "git, links in a working copy", tool: "git",
			script: `git clone -q $SRC/bare.git wc; cd wc; git config core.symlinks || echo on; git config user.name a; git config user.email a@example.org; ln -s one l
			git add l; git commit -qm two; rm l; git checkout -q l; readlink l; git status --short; sync .`, want: "on\none\n one", most: 2,
			note: "one for every file of .git and every save of one"},
		{name: "python3 -m venv", tool: "python3",
			script: `python3 -m venv --without-pip v; v/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'; find v -type d -exec sync {} +`, want: "True\n one", most: 1,
			note: "its links lead to the interpreter outside"},
		{name: "npm install", tool: "npm",
			script: `mkdir $OUT/tool; echo '{"name":"tool","version":"1.0.0","bin":"tool.js"}' >$OUT/tool/package.json; printf '#!/usr/bin/env node\nconsole.log("ran")\n' >$OUT/tool/tool.js
			tar -C $OUT -czf $OUT/tool.tgz --transform s/tool/package/ tool/package.json tool/tool.js; echo '{}' >package.json
			HOME=$OUT npm install --offline --no-audit --no-fund --silent $OUT/tool.tgz; readlink node_modules/.bin/tool; node_modules/.bin/tool; sync node_modules/.bin`,
			want: "../tool/tool.js\nran\n one", most: 2, note: "node_modules/.bin holds links"},
		{name: "touch, then writing", quick: true, tool: "touch",
			script: "touch g; echo two >g; { echo a; echo b; } >h", want: "one", uploads: 2, files: 2},
	}
}

// R4, W7: programs on a real mount of a real service: that they work, or which
// errno stops them, and what it costs. TestProgramTables compares fs/SEMANTICS.md.
func TestPrograms(t *testing.T) {
	w, alice, _ := team(t)
	a, beside := alice.mount("a"), alice.mount("beside")
	src := w.mkdir("src")
	write(t, filepath.Join(src, "x"), []byte("xx\n"))
	write(t, filepath.Join(src, "y"), []byte("yy\n"))
	w.mkdir("src/sub")
	write(t, filepath.Join(src, "sub/z"), []byte("zz\n"))
	bare := w.mkdir("outside")
	shell(t, bare, `git init -q --bare bare.git; git clone -q bare.git wc 2>/dev/null; cd wc; git config user.name a; git config user.email a@example.org
		echo one >one; git add one; git commit -qm one; git push -q origin HEAD 2>/dev/null`)
	out := w.mkdir("out")
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range programsTable() {
		if testing.Short() && !p.quick { // the quick ones save in the different ways that there are
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			proctest.Need(t, p.tool)
			if p.asRoot {
				proctest.Need(t, "root")
			}
			dir := a.path("team", fmt.Sprintf("p%02d", i))
			ok(t, os.Mkdir(dir, 0o700))
			write(t, filepath.Join(dir, "f"), []byte("one\n"))
			_, before := a.charges()
			rows := len(ledgerRows(t, a))
			refusals := a.control("errors")
			from := src
			if p.tool == "git" {
				from = bare
			}
			got := inFolder(t, dir, p.script, "SRC="+from, "OUT="+out, "TESTDATA="+testdata)
			_, after := a.charges()
			got += " " + strings.TrimSpace(string(read(t, filepath.Join(dir, "f"))))
			if !strings.Contains(strings.TrimSpace(got), strings.TrimSpace(p.want)) ||
				!strings.HasSuffix(strings.TrimSpace(got), lastLine(p.want)) {
				t.Errorf("shows %q, want %q", got, p.want)
			}
			p.check(t, after-before, livingFiles(t, a, rows))
			if p.refused == "EPERM" && a.control("errors") == refusals {
				t.Error("E1: the refusal left no line")
			}
		})
	}
	// attributes wait a moment (W16)
	proctest.Eventually(t, "nothing is pending", func() bool { return a.control("pending") == "" })
	_, uploads := a.charges()
	if rows := strings.Count(string(read(t, a.path("team/.svcfs/ledger.jsonl"))), "\n"); rows != uploads {
		t.Errorf("the ledger has %d uploads, the mount was charged for %d", rows, uploads)
	}
	want := folders(t, a)
	a.unmount()
	for name, m := range map[string]*mount{"a mount that was there all the time": beside,
		"a new mount": alice.mount("new")} {
		t.Run(name, func(t *testing.T) {
			got := folders(t, m)
			missing := slices.DeleteFunc(slices.Clone(want),
				func(name string) bool { return slices.Contains(got, name) })
			if len(missing) > 0 || len(got) != len(want) {
				t.Errorf("%d folders, the mount of the programs had %d; missing are %q", len(got), len(want), missing)
			}
			for i, p := range programsTable() {
				dir := m.path("team", fmt.Sprintf("p%02d", i))
				if _, err := os.Stat(dir); err != nil || p.again == "" {
					continue
				}
				if got := inFolder(t, dir, p.again, "OUT="+out); got == "" {
					t.Errorf("%s: nothing is there", p.name)
				}
			}
		})
	}
}

// folders lists the folders of a mount, but for temporary ones, which are of one mount alone.
func folders(t *testing.T, m *mount) (list []string) {
	t.Helper()
	for _, name := range beneath(t, m.path("team")) {
		if strings.HasSuffix(name, "/") && !strings.Contains(name, ".Trash") {
			list = append(list, name)
		}
	}
	return list
}

// The tables of fs/SEMANTICS.md have a row for every program that is run here, with
// what is checked of it, and no others.
func TestProgramTables(t *testing.T) {
	var programs, readers []string
	for _, p := range programsTable() {
		programs = append(programs, p.row())
	}
	for _, r := range readersTable() {
		readers = append(readers, r.row())
	}
	readers = append(readers, fileManagerRow)
	for header, want := range map[string][]string{"| Program | Outcome | Uploads | Files | Ratio | |": programs,
		"| Reading program | Retrievals |": readers} {
		_, table, ok := strings.Cut(string(read(t, "../fs/SEMANTICS.md")), header+"\n")
		if !ok {
			t.Errorf("no table %s", header)
			continue
		}
		table, _, _ = strings.Cut(table, "\n\n")
		rows := strings.Split(strings.TrimSpace(table), "\n")[1:]
		if slices.Sort(rows); !slices.Equal(rows, slices.Sorted(slices.Values(want))) {
			t.Errorf("the table has\n%s\nbut the tests have\n%s", strings.Join(rows, "\n"), strings.Join(want, "\n"))
		}
	}
}

func lastLine(s string) string { return strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:]) }

// ledgerRow is a line of ledger.jsonl.
type ledgerRow struct {
	Name    string
	Deleted *struct{ Reason string }
}

func ledgerRows(t *testing.T, m *mount) (rows []ledgerRow) {
	t.Helper()
	for line := range strings.Lines(string(read(t, m.path("team/.svcfs/ledger.jsonl")))) {
		var row ledgerRow
		ok(t, json.Unmarshal([]byte(line), &row))
		rows = append(rows, row)
	}
	return rows
}

// livingFiles counts the names that the ledger has got since it had that many rows, and
// that are not deleted.
func livingFiles(t *testing.T, m *mount, before int) int {
	t.Helper()
	names := make(map[string]bool)
	for _, row := range ledgerRows(t, m)[before:] {
		if row.Deleted == nil {
			names[row.Name] = true
		}
	}
	return len(names)
}

// check compares what a row of the table says. A program that saves a file more than once
// for no reason of its own is a fault of the mount.
func (p program) check(t *testing.T, uploads, files int) {
	t.Helper()
	switch {
	case p.most > 0:
		if uploads < files || uploads > p.most*files {
			t.Errorf("%d uploads for %d files", uploads, files)
		}
	case uploads != p.uploads || files != p.files:
		t.Errorf("%d uploads that leave %d files, want %d and %d", uploads, files, p.uploads, p.files)
	}
	if p.note == "" && (uploads > files || p.most > 1) {
		t.Error("the table does not say why it saves files more than once")
	}
}

// row is the program's line of the table.
func (p program) row() string {
	outcome, uploads, files, ratio := "works", fmt.Sprint(p.uploads), fmt.Sprint(p.files), "-"
	if p.refused != "" {
		outcome = p.refused
	}
	switch {
	case p.most == 1:
		uploads, files, ratio = "each file", "all", "1.00"
	case p.most > 0:
		uploads, files, ratio = "each save", "all", fmt.Sprintf("at most %d", p.most)
	case p.files > 0:
		ratio = fmt.Sprintf("%.2f", float64(p.uploads)/float64(p.files))
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", p.name, outcome, uploads, files, ratio, p.note)
}

// inFolder runs a script and returns what it prints; it may not take for ever.
func inFolder(t *testing.T, dir, script string, env ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), proctest.Hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "LC_ALL=C.UTF-8", "MAKEFLAGS=", "MAKELEVEL=",
		"GIT_CONFIG_GLOBAL=/dev/null"), env...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return regexp.MustCompile(`\r`).ReplaceAllString(string(out), "")
}

// reader is a program that reads on a mount what somebody else wrote.
type reader struct {
	name, tool, script, want string
	retrieves                int // charged for it
}

func readersTable() []reader {
	return []reader{
		{"ls, find, du, stat", "find",
			"ls -lR . >/dev/null; find . -newer tree >/dev/null; du -sh . >/dev/null; stat -c %s lines", "48894", 0},
		{"completion", "bash", "compgen -f tree/ | sort | head -1", "tree/1.txt", 0},
		{"gio info, guessing the type", "gio", "gio info -a standard::content-type,standard::size lines | grep '^size'",
			"size:  48894", 0},
		{"grep -r", "grep", "grep -r 'line 2' tree", "tree/2.txt:line 2", 3},
		{"less", "less", "TERM=dumb less -E paged | tail -1", "10000", 1},
		{"file", "file", "file -b --mime-type named", "text/plain", 1},
		{"head and tail", "tail", "head -1 ends; tail -c 6 ends; tail -n 1 tailed", "1\n10000\n10000", 2},
		{"sqlite3", "sqlite3", "sqlite3 data.db 'select a from t'", "42", 1},
		{"ffmpeg, seeking", "ffmpeg", "ffmpeg -v error -ss 1 -i film.mp4 -f null - && echo played", "played", 1},
		{"ImageMagick", "convert", "identify -format %wx%h picture.png", "32x32", 1},
		{"unzip", "unzip", "unzip -p archive.zip lines | tail -1", "10000", 1},
		{"python mmap", "python3", `python3 -c "
import mmap
f = open('mapped', 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); print(m[-6:-1].decode(), m.find(b'5000'))"`, "10000 23888", 1},
		{"again, from memory", "grep", "grep -c . tree/1.txt lines mapped | head -1", "tree/1.txt:1", 1},
		{"tar", "tar", "tar -cf - . | tar -tf - | wc -l", "15", 0},
	}
}

// row is the program's line of the second table.
func (r reader) row() string { return fmt.Sprintf("| %s | %d |", r.name, r.retrieves) }

// R1, R4: programs that read pay once for each file, wherever they read in it.
func TestReadingProgramsPayOnce(t *testing.T) {
	w, alice, bob := team(t)
	a, b := alice.mount("a"), bob.mount("b")
	src := w.mkdir("src")
	proctest.Need(t, "ffmpeg")
	proctest.Need(t, "sqlite3")
	proctest.Need(t, "convert")
	shell(t, src, `mkdir tree; for i in 1 2 3; do echo "line $i" >tree/$i.txt; done; seq 10000 >lines
		sqlite3 data.db 'create table t(a); insert into t values(42)'; ffmpeg -v error -f lavfi -i testsrc=duration=2:size=64x64:rate=10 film.mp4
		zip -q archive.zip lines; convert -size 32x32 xc:red picture.png; cp lines mapped; cp lines paged; cp lines ends; cp lines named; cp lines tailed`)
	shell(t, w.dir, "cp -r src a/team/")
	for _, p := range readersTable() {
		t.Run(p.name, func(t *testing.T) {
			proctest.Need(t, p.tool)
			before, _ := b.charges()
			if got := strings.TrimSpace(inFolder(t, b.path("team/src"), p.script)); got != p.want {
				t.Errorf("shows %q, want %q", got, p.want)
			}
			if after, _ := b.charges(); after-before != p.retrieves {
				t.Errorf("%d retrievals, want %d", after-before, p.retrieves)
			}
		})
	}
	_ = a
}
