package fs

import (
	"errors"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
)

// forget makes the kernel drop every file and folder that no program has open.
func (m *mount) forget() {
	m.t.Helper()
	proctest.Eventually(m.t, "the kernel forgets", func() bool {
		ok(m.t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("2\n"), 0))
		return m.must(order{Do: "known"}).Counts.Waiting <= 1 // the root stays
	})
}

// openHandle opens a file by a handle, as root.
func (m *mount) openHandle(h unix.FileHandle, flags int) (*os.File, error) {
	root, err := unix.Open(m.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	ok(m.t, err)
	defer func() { _ = unix.Close(root) }()
	fd, err := unix.OpenByHandleAt(root, h, flags|unix.O_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "handle"), nil
}

// R8: a handle of name_to_handle_at(2) opens the file that it was made of, also after the
// kernel has forgotten the file, wherever programs moved it. It opens no other file.
func TestR8HandlesSurviveADroppedCache(t *testing.T) {
	proctest.Need(t, "root") // who opens by a handle reads past every folder above
	m := mounting(t, func(p *plan) { p.Ours, p.Watches = true, true })
	var handles []unix.FileHandle
	names := []string{"team/folder/f", "team/folder", "team/replaced", "team/moved", "team/removed"}
	for _, name := range []string{"folder/f", "replaced", "moved", "removed"} {
		m.put(name, "content of "+name)
	}
	for _, name := range names {
		h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, m.path(name), 0)
		ok(t, err)
		handles = append(handles, h)
	}
	ok(t, errors.Join(os.Rename(m.path("team/moved"), m.path("team/folder/elsewhere")),
		os.Remove(m.path("team/removed"))))
	m.write("team/removed", "another file")
	m.put("replaced", "another version")
	m.must(order{Do: "settle"})
	m.forget()
	open := func(i, flags int) (*os.File, error) { return m.openHandle(handles[i], flags) }
	for i, want := range map[int]string{0: "content of folder/f", 3: "content of moved"} {
		f, err := open(i, unix.O_RDONLY)
		if err != nil {
			t.Errorf("%s: %v", names[i], err)
			continue
		}
		defer f.Close()
		if got, err := io.ReadAll(f); string(got) != want || err != nil {
			t.Errorf("%s reads %q, %v", names[i], got, err)
		}
	}
	if dir, err := open(1, unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
		t.Error(err)
	} else {
		defer dir.Close()
		if list, err := dir.Readdirnames(-1); err != nil || len(list) != 2 {
			t.Errorf("the folder lists %q, %v", list, err)
		}
	}
	for _, i := range []int{2, 4} {
		if f, err := open(i, unix.O_RDONLY); err == nil || !errors.Is(err, unix.ESTALE) {
			t.Errorf("%s, which is another file now: %v", names[i], err)
			_ = f.Close()
		}
	}
}
