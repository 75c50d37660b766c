package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
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
	mount   func(dir string) *exec.Cmd // nil: root is an ordinary folder
	forget  []string                   // folders of local caches that make a mount warm
	root    string                     // mountpoint
	linger  time.Duration              // how long it may send after a close; 0 = not at all

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
	makers := []func() ([]*system, error){w.tmpfs, w.svcfs, w.gocryptfs, w.rclone, w.sshfs, w.s3fs}
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

// modes are how svcfs lets the kernel serve reads.
var modes = []struct {
	name, note string
	flags      []string
	scene      string
}{
	{"passthrough", "the kernel reads decrypted memory of large files itself; needs root", []string{"--kernel-cache", "passthrough"}, ""},
	{"keep", "the kernel keeps pages from one open to the next; the default", nil, ""},
	{"plain", "no pages are kept: every read asks svcfs", []string{"--kernel-cache", "plain"}, ""},
	{"no-xattr", "like keep; ls asks for no attributes of files", []string{"--no-xattr"}, sceneList},
}

// svcfs is the system this is about, in every mode this user can have, over one
// service.
func (w *world) svcfs() (list []*system, err error) {
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
		s := &system{name: "svcfs " + mode.name, note: mode.note, scene: mode.scene, fill: func() error { return fill() }}
		if !w.wants(s.name) {
			continue
		}
		if mode.name == "passthrough" && os.Geteuid() != 0 {
			s.missing = "needs root: run make bench as root"
		}
		s.mount = func(dir string) *exec.Cmd {
			s.servers = []*process{w.svc.process}
			cmd := exec.Command(filepath.Join(w.bin, "svcfs"), append([]string{"mount", dir, "--account", w.svc.account, "--api-key-file", w.svc.keyFile,
				"--url", w.svc.url, "--cache-size", "2GiB", "--max-file-size", "2GiB", "--allow-delete"}, mode.flags...)...)
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
