package integration

import (
	"bufio"
	"bytes"
	"fmt"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
)

// envScreenshot names a file that TestR4FileManager writes what it saw to, such
// as fs/testdata/file-manager.png.
const envScreenshot = "SVCFS_SCREENSHOT"

// W7, R1: a document that one account saves in LibreOffice opens in that of
// another, which saves it too: one upload for each save, one retrieval for who
// has not seen it.
func TestDocumentBothWays(t *testing.T) {
	proctest.Long(t)
	proctest.Need(t, "soffice")
	proctest.Need(t, unoModule)
	w, alice, bob := team(t)
	a, b := alice.mount("a"), bob.mount("b")
	write(t, w.mkdir("src")+"/letter.txt", []byte("Dear Bob\n"))
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"OUT=" + w.mkdir("out"), "TESTDATA=" + testdata}
	inFolder(t, w.dir, fmt.Sprintf(officeConvert, "odt src/letter.txt --outdir src")+"; cp src/letter.odt a/team/",
		env...)
	for _, step := range []struct {
		text         string
		writer, peer *mount
	}{{"from alice", a, b}, {"from bob", b, a}, {"from alice again", a, b}} {
		read(t, step.writer.path("team/letter.odt")) // the last step's version, before it is counted
		retrieves, uploads := step.writer.charges()
		got := inFolder(t, step.writer.path("team"), fmt.Sprintf(officeSave, "letter.odt '"+step.text+"'"), env...)
		if got != "locked writable\nunlocked\n" {
			t.Errorf("%s: office.py says %q", step.text, got)
		}
		if r, u := step.writer.charges(); r != retrieves || u != uploads+1 {
			t.Errorf("%s: %d retrievals and %d uploads for a save, want none and one", step.text, r-retrieves,
				u-uploads)
		}
		want := read(t, step.writer.path("team/letter.odt"))
		proctest.Eventually(t, "the other account sees it: "+step.text,
			func() bool { return bytes.Equal(read(t, step.peer.path("team/letter.odt")), want) })
	}
	shown := inFolder(t, b.path("team"),
		"HOME=$OUT soffice -env:UserInstallation=file://$OUT/profile --headless --cat letter.odt 2>/dev/null", env...)
	for _, text := range []string{"Dear Bob", "from alice", "from bob", "from alice again"} {
		if !strings.Contains(shown, text) {
			t.Errorf("the document lacks %q: %q", text, shown)
		}
	}
	for _, m := range []*mount{a, b} {
		if text := m.control("pending") + m.control("errors"); text != "" {
			t.Errorf("left: %s", text)
		}
	}
}

// fileManagerRow is the row of TestR4FileManager in fs/SEMANTICS.md.
const fileManagerRow = "| pcmanfm, a folder with previews | 0 |"

// R4, R5: a file manager with previews lists names and sizes of a folder that
// nobody has read, and nothing is charged: neither for previews, made by itself
// or by others, nor for a look at the type. What it is asked to copy it reads.
func TestR4FileManager(t *testing.T) {
	for _, tool := range []string{"pcmanfm", "Xvfb", "convert", "dbus-run-session", "gdk-pixbuf-thumbnailer", "gio",
		"/usr/share/mime/mime.cache",
		"/usr/share/icons/Adwaita/index.theme"} {
		proctest.Need(t, tool)
	}
	w, alice, bob := team(t)
	a := alice.mount("a")
	shell(t, a.path("team"), `echo hello >README; echo '<p>hello' >page.html; head -c 300000 /dev/urandom >data.bin; mkdir sub; seq 1000 >sub/numbers.txt
		convert -size 300x200 plasma:red-blue photo.jpg; convert -size 1200x900 xc: +noise Random photo-large.png`)
	b := bob.mount("b")
	free := func(when string) {
		t.Helper()
		if retrieves, uploads := b.charges(); retrieves+uploads != 0 {
			t.Errorf("%s: %d retrievals, %d uploads\n%s", when, retrieves, uploads, b.control("errors"))
		}
	}
	d := newDesktop(t, w)
	d.run("pcmanfm", "--no-desktop", b.path("team"))
	proctest.Eventually(t, "somebody was refused a look at each file", func() bool {
		refused := b.control("errors")
		for _, file := range []string{"data.bin", "page.html", "photo.jpg", "photo-large.png"} {
			if !strings.Contains(refused, "/team/"+file+"\t") {
				return false
			}
		}
		return true
	})
	proctest.Eventually(t, "a window of many colours", func() bool {
		return d.screenshot() >= 500
	})
	free("listing a folder")
	if kept := os.Getenv(envScreenshot); kept != "" {
		shell(t, w.dir, "convert shot.png -colors 128 -strip '"+kept+"'")
	}
	seen := read(t, d.shot)
	ok(t, os.Mkdir(b.path("team/made meanwhile"), 0o700))
	proctest.Eventually(t, "a folder made meanwhile shows", func() bool {
		d.screenshot()
		return !bytes.Equal(read(t, d.shot), seen)
	})
	free("showing a change")
	if got := string(read(t, b.path("team/README"))); got != "hello\n" {
		t.Errorf("the mount answers others with %q", got)
	}
	shell(t, w.dir, "cp $(command -v gio) nautilus; ./nautilus info -a standard::content-type b/team/page.html | "+
		"grep html")
	if retrieves, _ := b.charges(); retrieves != 1 {
		t.Errorf("%d retrievals for one file that was read", retrieves)
	}
	shell(t, w.dir, "mkdir copies; for f in data.bin page.html sub/numbers.txt; do ./nautilus copy b/team/$f "+
		"copies/; cmp a/team/$f copies/${f#sub/}; done")
	if retrieves, _ := b.charges(); retrieves != 4 {
		t.Errorf("%d retrievals, want one for each file that was read or copied", retrieves)
	}
}

// R4, R5: what a file manager is asked to copy it reads, also what is so small that
// its look at the type reads as much. Before that it has paid for nothing.
func TestR4FileManagersCopy(t *testing.T) {
	proctest.Need(t, "Xvfb")
	proctest.Need(t, "dbus-run-session")
	proctest.Need(t, "xdotool")
	proctest.Need(t, "convert")
	for _, tc := range []struct {
		args    []string
		title   string   // of a window that shows a folder
		refused []string // looks at files by itself
	}{
		{[]string{"pcmanfm", "--no-desktop"}, "%s", []string{"notes", "page", "small.png"}},
		{[]string{"thunar"}, "%s - Thunar", []string{"notes", "page"}},
	} {
		t.Run(tc.args[0], func(t *testing.T) {
			proctest.Need(t, tc.args[0])
			w, alice, bob := team(t)
			a := alice.mount("a")
			shell(t, a.path("team"), `echo hello >README; echo words >notes; head -c 4096 /dev/urandom >page; head -c 4097 /dev/urandom >more
				mkdir sub; seq 1000 >sub/numbers; convert -size 16x16 xc:red small.png`)
			b, copies := bob.mount("b"), w.mkdir("copies")
			d := newDesktop(t, w)
			d.run(append(tc.args, b.path("team"))...)
			d.focus(fmt.Sprintf(tc.title, "team"))
			proctest.Eventually(t, "somebody was refused a look at each file", func() bool {
				refused := b.control("errors")
				for _, file := range tc.refused {
					if !strings.Contains(refused, "/team/"+file+"\t") {
						return false
					}
				}
				return true
			})
			if retrieves, _ := b.charges(); retrieves != 0 {
				t.Errorf("%d retrievals before anything is copied", retrieves)
			}
			visit := func(dir string) {
				d.xdotool("key", "ctrl+l")
				d.xdotool("type", dir)
				d.xdotool("key", "Return")
				d.focus(fmt.Sprintf(tc.title, filepath.Base(dir)))
			}
			copyAll := func() {
				d.xdotool("key", "ctrl+a", "ctrl+c")
				visit(copies)
				d.xdotool("key", "ctrl+v")
			}
			copyAll()
			asked := time.Now()
			proctest.Eventually(t, "all is copied", func() bool {
				if made, err := os.ReadDir(copies); err == nil && len(made) == 0 && time.Since(asked) > keysAreLost {
					visit(b.path("team"))
					copyAll()
					asked = time.Now()
				}
				return exec.Command("diff", "-r", a.path("team"), copies).Run() == nil
			})
			if retrieves, uploads := b.charges(); retrieves != 6 || uploads != 0 {
				t.Errorf("copying 6 files: %d retrievals, %d uploads", retrieves, uploads)
			}
		})
	}
}

// keysAreLost is when keys that had no effect are pressed again: a busy file manager may show a folder, by the
// title of its window, before it takes keys for it.
const keysAreLost = 30 * time.Second

// desktop is an X server that nobody looks at.
type desktop struct {
	t    *testing.T
	env  []string
	shot string // the last screenshot
	log  *safeBuffer
}

func newDesktop(t *testing.T, w *world) *desktop {
	t.Helper()
	d := &desktop{t: t, shot: filepath.Join(w.dir, "shot.png"), log: &safeBuffer{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(d.log)
		}
	})
	told, tell, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	x := exec.Command("Xvfb", "-displayfd", "3", "-screen", "0", "760x420x24", "-nolisten", "tcp",
		"-noreset") // else it refuses whoever comes while it resets after its last client, such as xdotool
	x.ExtraFiles, x.Stderr = []*os.File{tell}, d.log
	d.start(x)
	_ = tell.Close()
	display, err := bufio.NewReader(told).ReadString('\n')
	if err != nil {
		t.Fatalf("Xvfb: %v\n%s", err, d.log)
	}
	settings := w.mkdir("desktop/.config/pcmanfm/default")
	write(t, filepath.Join(settings, "pcmanfm.conf"), []byte("[ui]\nview_mode=list\nwin_width=760\nwin_height=420\n"))
	d.env = append(os.Environ(), "DISPLAY=:"+strings.TrimSpace(display), "HOME="+w.mkdir("desktop"),
		"XDG_RUNTIME_DIR="+w.mkdir("desktop/run"),
		"XDG_CONFIG_HOME="+w.mkdir("desktop/.config"), "XDG_CACHE_HOME="+w.mkdir("desktop/.cache"), "LC_ALL=C.UTF-8",
		"NO_AT_BRIDGE=1")
	return d
}

// start runs a program and all it starts until the test ends.
func (d *desktop) start(cmd *exec.Cmd) {
	d.t.Helper()
	cmd.SysProcAttr, cmd.WaitDelay = &syscall.SysProcAttr{Setpgid: true}, 5*time.Second
	ok(d.t, cmd.Start())
	d.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		_ = cmd.Wait()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what still holds the log
	})
}

// run starts a program in a session of its own.
func (d *desktop) run(args ...string) {
	d.t.Helper()
	cmd := exec.Command("dbus-run-session", append([]string{"--"}, args...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = d.env, d.log, d.log
	d.start(cmd)
}

// focus waits for a window of that title and gives it the keyboard.
func (d *desktop) focus(title string) {
	d.t.Helper()
	proctest.Eventually(d.t, "a window "+title, func() bool {
		cmd := exec.Command("xdotool", "search", "--onlyvisible", "--name", "^"+title+"$", "windowfocus", "--sync")
		cmd.Env = d.env
		return cmd.Run() == nil
	})
}

// xdotool presses keys.
func (d *desktop) xdotool(args ...string) {
	d.t.Helper()
	cmd := exec.Command("xdotool", args...)
	cmd.Env = d.env
	if out, err := cmd.CombinedOutput(); err != nil {
		d.t.Fatalf("xdotool %q: %v\n%s", args, err, out)
	}
}

// screenshot returns how many colours the screen has.
func (d *desktop) screenshot() int {
	d.t.Helper()
	cmd := exec.Command("import", "-window", "root", d.shot)
	cmd.Env = d.env
	if out, err := cmd.CombinedOutput(); err != nil {
		d.t.Fatalf("import: %v\n%s", err, out)
	}
	picture, err := png.Decode(bytes.NewReader(read(d.t, d.shot)))
	if err != nil {
		d.t.Fatal(err)
	}
	colors := make(map[color.Color]bool)
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			colors[picture.At(x, y)] = true
		}
	}
	return len(colors)
}
