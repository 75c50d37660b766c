package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/svcfs/svcfs/integration/line"
)

// system is a file system under test, or tmpfs, the floor.
type system struct {
	name    string
	missing string // what is not installed, and the command that installs it
	version string
	note    string // what a reader must know to compare

	servers []*process // counted with it; the world ends them
	stored  []string   // folders of what it keeps, encrypted or not
	fill    func() error
	mount   func(dir string) *exec.Cmd    // nil: root is an ordinary folder
	forget  []string                      // folders of local caches that make a mount warm
	root    string                        // mountpoint
	linger  time.Duration                 // how long it may send after a close; 0 = not at all
	add     func(name, path string) error // stores a local file in the folder setBig, cheaply; nil = through the mount
	sync    func() error                  // waits until all is with its server; nil = it is, or nobody can tell
	addr    string                        // host and port of its server; empty = it has none
	way     *line.Line                    // the mount reaches addr through it; nil = by itself
	line    networkLine                   // what that line is like

	client *process
	scene  string // the only scene it plays; empty = all
}

// up mounts it anew. With cold, nothing that was decrypted is in memory: the
// kernel's pages of the mount before went with it, and its own cache is emptied.
// What is stored stays in memory, so that no disk is measured.
func (s *system) up(cold bool) error {
	if s.mount == nil {
		return nil
	}
	if s.client != nil {
		if err := s.down(); err != nil {
			return err
		}
	}
	if cold {
		for _, dir := range s.forget {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
	}
	if err := os.MkdirAll(s.root, 0o755); err != nil {
		return err
	}
	client, err := start(s.mount(s.root))
	if err != nil {
		return err
	}
	s.client = client
	return client.until(func() bool { return isMounted(s.root) && usable(s.root) })
}

// server returns the host and port that a mount talks to.
func (s *system) server() string {
	if s.way != nil {
		return s.way.Addr()
	}
	return s.addr
}

// reach lets mounts from now on reach their server through a line; nil = by themselves.
func (s *system) reach(shape *line.Shape) (err error) {
	if s.way != nil {
		s.way.Close()
		s.way = nil
	}
	if shape != nil && s.addr != "" {
		s.way, err = line.New(s.addr, *shape)
	}
	return err
}

// moved is what has passed on the line so far; nothing without one.
func (s *system) moved() line.Moved {
	if s.way == nil {
		return line.Moved{}
	}
	return s.way.Moved()
}

// usable reports whether the mount answers: some appear before they do.
func usable(dir string) bool {
	_, err := os.ReadDir(dir)
	return err == nil
}

// down unmounts. Everything it was told is with its server then.
func (s *system) down() error {
	if s.mount == nil || s.client == nil {
		return nil
	}
	deadline := time.Now().Add(startTimeout)
	for isMounted(s.root) {
		if err := exec.Command("umount", s.root).Run(); err == nil {
			break
		}
		if exec.Command("fusermount3", "-u", s.root).Run() == nil {
			break
		}
		if time.Now().After(deadline) {
			unmountLazily(s.root)
			s.client.stop()
			s.client = nil
			return fmt.Errorf("%s does not unmount", s.name)
		}
		time.Sleep(50 * time.Millisecond) // a program that has just ended
	}
	select {
	case <-s.client.done:
	case <-time.After(startTimeout):
	}
	s.client.stop()
	s.client = nil
	return nil
}

func unmountLazily(dir string) {
	if syscall.Unmount(dir, syscall.MNT_DETACH) != nil {
		_ = exec.Command("fusermount3", "-uz", dir).Run()
	}
}

func (s *system) path(parts ...string) string {
	return filepath.Join(append([]string{s.root}, parts...)...)
}

// meter measures what the system's processes use.
func (s *system) meter() *meter { return startMeter([]*process{s.client}, s.servers) }

// canDrop reports whether this user may drop the kernel's caches.
func canDrop() bool { return os.Geteuid() == 0 }

func dropCaches() {
	syscall.Sync()
	if canDrop() {
		_ = os.WriteFile("/proc/sys/vm/drop_caches", []byte("3\n"), 0)
	}
}

// newSystems prepares the floor, svcfs in its modes, and the peers.
func (w *world) newSystems() error {
	return w.prepare(w.tmpfs, w.answer, w.svcfs, w.gocryptfs, w.rclone, w.sshfs, w.s3fs)
}

// prepare makes systems and fills them.
func (w *world) prepare(makers ...func() ([]*system, error)) error {
	for _, maker := range makers {
		made, err := maker()
		if err != nil {
			return err
		}
		for _, s := range made {
			s.root = orDefault(s.root, w.path("mnt", fileName(s.name)))
			w.systems = append(w.systems, s)
		}
	}
	for _, s := range w.systems {
		if s.missing != "" || s.fill == nil {
			continue
		}
		progress("filling %s", s.name)
		if err := s.fill(); err != nil {
			return fmt.Errorf("fill %s: %w%s", s.name, err, w.ended())
		}
	}
	dropCaches()
	for _, s := range w.systems {
		if err := warm(s.stored...); err != nil {
			return err
		}
	}
	return nil
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func fileName(s string) string {
	name := []byte(s)
	for i, c := range name {
		if c == ' ' || c == '(' || c == ')' || c == '/' {
			name[i] = '-'
		}
	}
	return string(name)
}

// tmpfs is the floor of everything that is served from memory.
func (w *world) tmpfs() ([]*system, error) {
	s := &system{name: "tmpfs", root: filepath.Join(w.shm, "root"), note: "the floor: files in memory, never cold"}
	s.fill = func() error { return w.writeTo(s.root) }
	return []*system{s}, nil
}

// svcfsMode is a way to mount with svcfs.
type svcfsMode struct {
	name, note string
	flags      []string
	scene      string
}

// modes are how svcfs lets the kernel serve reads.
var modes = []svcfsMode{
	{svcfsKeep, "the kernel keeps pages from one open to the next; the default", nil, ""},
	{"svcfs plain", "no pages are kept: every read asks svcfs", []string{"--kernel-cache", "plain"}, ""},
	{svcfsNoXattr, "like keep; ls asks for no attributes of files", []string{"--no-xattr"}, sceneList},
}

// svcfs is the system this is about, in every mode this user can have, over one
// service.
func (w *world) svcfs() ([]*system, error) { return w.svcfsIn(modes) }

func (w *world) svcfsIn(modes []svcfsMode) (list []*system, err error) {
	filled := false
	fill := func() error {
		if filled {
			return nil
		}
		filled = true
		if w.svc, err = w.newService("svcd", nil); err != nil {
			return err
		}
		for folder, files := range w.dataSet() {
			if err := w.svc.upload(folder, files); err != nil {
				return err
			}
		}
		return w.svc.upload(setWrite, nil)
	}
	for _, mode := range modes {
		s := &system{name: mode.name, note: mode.note, scene: mode.scene}
		if !w.wants(s.name) {
			continue
		}
		s.fill = func() error {
			err := fill()
			if err == nil {
				s.servers, s.addr = []*process{w.svc.process}, strings.TrimPrefix(w.svc.url, "http://")
			}
			return err
		}
		s.add = func(name, path string) error { return w.svc.uploadFile(setBig, name, path) }
		s.mount = func(dir string) *exec.Cmd {
			cmd := exec.Command(filepath.Join(w.bin, "svcfs"),
				slices.Concat([]string{"mount", dir, "--account", w.svc.account, "--api-key-file", w.svc.keyFile,
					"--url", "http://" + s.server(), "--allow-delete"}, w.mountFlags, mode.flags)...)
			cmd.Env = append(os.Environ(), "HOME="+w.path("home"))
			return cmd
		}
		s.stored = []string{w.path("svcd")}
		list = append(list, s)
	}
	return list, nil
}

// found returns the path of a program, or says how to get it.
func found(name, install string) (string, string) {
	path, err := exec.LookPath(name)
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/" + name); err != nil {
			return "", "not installed: " + install
		}
	}
	return path, ""
}
