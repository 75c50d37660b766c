package tree

import (
	"errors"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
)

// keeps is a service that records attributes, whose requests wait until a test wants them.
func keeps(c *Config) { c.Ours, c.AttributesDelay = true, time.Hour }

// keepsSoon is the same without the wait.
func keepsSoon(c *Config) { c.Ours, c.AttributesDelay = true, time.Nanosecond }

func (m *mounted) file(p string) *File {
	m.t.Helper()
	f, ok := m.node(p).(*File)
	if !ok {
		m.t.Fatalf("%s is no file", p)
	}
	return f
}

// wantRequests checks how often attributes were recorded apart from content.
func (m *mounted) wantRequests(n int) {
	m.t.Helper()
	if got := m.w.Begun("set attributes"); got != n {
		m.t.Errorf("%d requests for attributes, want %d", got, n)
	}
}

// drained ends what waits, as unmounting does.
func (m *mounted) drained() {
	m.t.Helper()
	if left := m.Drain(m.t.Context()); len(left) > 0 {
		m.t.Errorf("left: %+v", left)
	}
}

// wantAttributes checks what a mount shows of a file.
func (m *mounted) wantAttributes(p string, want sdk.Attributes) {
	m.t.Helper()
	f := m.file(p)
	a := f.Attr()
	theirs := maps.Clone(f.Xattrs())
	maps.DeleteFunc(theirs, func(name, _ string) bool { return strings.HasPrefix(name, format.ReservedPrefix) })
	got := sdk.Attributes{ModTime: a.Mtime, Executable: a.Executable, XAttrs: theirs}
	if !got.Equal(want) {
		m.t.Errorf("%s has %+v, want %+v", p, got, want)
	}
}

func someAttributes() sdk.Attributes {
	return sdk.Attributes{ModTime: time.Unix(1_500_000_000, 123_456_789), Executable: true, XAttrs: map[string]string{"user.note": "x\x00"}}
}

// give sets attributes as programs do, in three steps.
func give(t testing.TB, f *File, a sdk.Attributes) {
	t.Helper()
	mode := uint32(0o640)
	if a.Executable {
		mode = 0o750
	}
	f.SetMode(mode)
	for name, value := range a.XAttrs {
		ok(t, f.SetXattr(name, value, XattrSet))
	}
	f.SetTimes(a.ModTime)
}

// W16: what programs set is there in a later mount and for others, and costs at most one
// free request, however it came to be set.
func TestW16AttributesAreRecorded(t *testing.T) {
	for _, tc := range []struct {
		what              string
		uploads, requests int
		do                func(m *mounted)
	}{
		{"cp -p, tar: before the close", 1, 0, func(m *mounted) {
			h := m.create("/team/f")
			m.write(h, "x", 0)
			give(m.t, h.File(), someAttributes())
			ok(m.t, h.Flush(m.t.Context()))
			h.Release()
		}},
		{"rsync: on a temporary name", 1, 0, func(m *mounted) {
			ok(m.t, m.save("/team/f.tmp", "x"))
			give(m.t, m.file("/team/f.tmp"), someAttributes())
			ok(m.t, m.rename("f.tmp", "f"))
		}},
		{"after the close", 1, 1, func(m *mounted) {
			ok(m.t, m.save("/team/f", "x"))
			give(m.t, m.file("/team/f"), someAttributes())
		}},
		{"at an empty file that waits", 1, 0, func(m *mounted) {
			ok(m.t, m.save("/team/f", ""))
			give(m.t, m.file("/team/f"), someAttributes())
		}},
		{"before a later save", 2, 0, func(m *mounted) {
			ok(m.t, m.save("/team/f", "x"))
			give(m.t, m.file("/team/f"), someAttributes())
			h := m.create("/team/f")
			m.write(h, "y", 0)
			h.File().SetTimes(someAttributes().ModTime)
			ok(m.t, h.Flush(m.t.Context()))
			h.Release()
		}},
		{"before a rename", 1, 1, func(m *mounted) {
			ok(m.t, m.save("/team/g", "x"))
			give(m.t, m.file("/team/g"), someAttributes())
			ok(m.t, m.rename("g", "f"))
		}},
		{"while it is open and unchanged", 1, 1, func(m *mounted) {
			ok(m.t, m.save("/team/f", "x"))
			h := m.open("/team/f", OpenFlags{Read: true, Write: true})
			give(m.t, h.File(), someAttributes())
			ok(m.t, h.Flush(m.t.Context()))
			h.Release()
		}},
		{"with a save of the same bytes", 1, 1, func(m *mounted) {
			ok(m.t, m.save("/team/f", "x"))
			ok(m.t, m.save("/team/f.tmp", "x"))
			give(m.t, m.file("/team/f.tmp"), someAttributes())
			ok(m.t, m.rename("f.tmp", "f"))
		}},
	} {
		t.Run(tc.what, func(t *testing.T) {
			w := team()
			m := mount(t, w, alice, keeps)
			tc.do(m)
			m.drained()
			m.wantRequests(tc.requests)
			m.wantCharges(0, tc.uploads)
			ctime := m.file("/team/f").Attr().Ctime
			for who, again := range map[string]*mounted{"this mount": m, "a new mount": mount(t, w, alice, keeps), "another member": mount(t, w, bob, keeps)} {
				again.wantAttributes("/team/f", someAttributes())
				if got := again.file("/team/f").Attr().Ctime; tc.requests == 0 && !got.Equal(ctime) {
					t.Errorf("%s: the ctime is %v, was %v", who, got, ctime)
				}
			}
			m.drained()
			m.wantRequests(tc.requests)
		})
	}
}

// W16: one request has what programs change within a moment, and sends itself.
func TestW16RequestsAreGathered(t *testing.T) {
	w := team()
	synctest.Test(t, func(t *testing.T) {
		m := mount(t, w, alice, ours)
		ok(t, m.save("/team/f", "x"))
		give(t, m.file("/team/f"), someAttributes())
		if p := m.Pending(); len(p) != 1 || !p[0].Attributes || p[0].Path != "/team/f" {
			t.Errorf("pending: %+v", p)
		}
		if got := string(report.ShowPending(m.Pending())); !strings.HasSuffix(got, "Z\tattributes\t/team/f\t\n") {
			t.Errorf("pending says %q", got)
		}
		time.Sleep(DefaultAttributesDelay)
		synctest.Wait()
		if p := m.Pending(); len(p) > 0 {
			t.Errorf("still pending: %+v", p)
		}
		m.wantRequests(1)
		m.wantCharges(0, 1)
	})
	mount(t, w, bob, keeps).wantAttributes("/team/f", someAttributes())
}

// W16: attributes that the next save has make nobody look at the service.
func TestW16AttributesWaitForAnOpenFile(t *testing.T) {
	w := team()
	m := mount(t, w, alice, keeps)
	ok(t, m.save("/team/f", "x"))
	give(t, m.file("/team/f"), someAttributes())
	w.Fail("set attributes", &sdk.Error{Op: "set attributes", Kind: sdk.ErrUnavailable})
	m.KeepAttributes(t.Context())
	if !m.unrecorded.isAwaiting() {
		t.Error("attributes that the service did not take are forgotten")
	}
	h := m.open("/team/f", OpenFlags{Read: true, Write: true})
	m.write(h, "y", 0)
	if m.unrecorded.isAwaiting() {
		t.Error("the mount would ask again and again, although the file is being written")
	}
	ok(t, h.Flush(t.Context()))
	h.Release()
	if p := m.Pending(); len(p) > 0 || m.unrecorded.isAwaiting() {
		t.Errorf("after the save waits %+v", p)
	}
}

// W16: fsync of the file and of its directory record what waits.
func TestW16FsyncRecordsAttributes(t *testing.T) {
	for what, sync := range map[string]func(m *mounted) error{
		"the file": func(m *mounted) error {
			h := m.open("/team/f", OpenFlags{Read: true})
			defer h.Release()
			return h.Fsync(t.Context())
		},
		"the directory": func(m *mounted) error { return m.dir("/team").Fsync(t.Context()) },
	} {
		w := team()
		m := mount(t, w, alice, keeps)
		ok(t, m.save("/team/f", "x"))
		give(t, m.file("/team/f"), someAttributes())
		w.Fail("set attributes", &sdk.Error{Op: "set attributes", Kind: sdk.ErrUnavailable})
		wantClass(t, sync(m), ClassUnreachable)
		w.Fail("set attributes", nil)
		ok(t, sync(m))
		m.wantRequests(2)
		if p := m.Pending(); len(p) > 0 {
			t.Errorf("%s: pending: %+v", what, p)
		}
		mount(t, w, bob, keeps).wantAttributes("/team/f", someAttributes())
	}
}

// W16: saving the bytes that are recorded buys nothing, and leaves the new time.
func TestW16SameBytesAtAnotherTime(t *testing.T) {
	w := team()
	m := mount(t, w, alice, keeps)
	ok(t, m.save("/team/f", "x"))
	first := m.file("/team/f").Attr().Mtime
	m.drained()
	m.wantRequests(0) // the save had the time
	ok(t, m.save("/team/f", "x"))
	second := m.file("/team/f").Attr().Mtime
	if !second.After(first) {
		t.Errorf("the mtime is %v, was %v", second, first)
	}
	m.drained()
	m.wantRequests(1)
	m.wantCharges(0, 1)
	mount(t, w, bob, keeps).wantAttributes("/team/f", sdk.Attributes{ModTime: second})
}

// W16: what others record shows here, also at a file that is in use, and what was changed here meanwhile
// wins. The kernel is told.
func TestW16AttributesThatOthersChange(t *testing.T) {
	w := team()
	a, b := mount(t, w, alice, keeps), mount(t, w, alice, keeps)
	ok(t, a.save("/team/f", "x"))
	f := b.file("/team/f")
	kernel := &toldOf{}
	b.SetKernel(kernel)
	give(t, a.file("/team/f"), someAttributes())
	a.drained()
	ok(t, f.SetXattr("user.own", "1", XattrSet))
	b.refresh()
	if b.file("/team/f") != f {
		t.Error("it is another inode")
	}
	if len(kernel.names) != 1 || kernel.names[0] != "f" {
		t.Errorf("the kernel was told of %v", kernel.names)
	}
	want := someAttributes()
	want.XAttrs = map[string]string{"user.own": "1"}
	b.wantAttributes("/team/f", want)
	b.drained()
	a.refresh()
	a.wantAttributes("/team/f", want)
	a.wantRequests(2)
}

type toldOf struct {
	noKernel
	names []string
}

func (k *toldOf) AttributesChanged(_ *Dir, name string) { k.names = append(k.names, name) }

// W16: a service that has enough of requests is asked again later, and programs get no
// error.
func TestW16AttributesWaitForTheService(t *testing.T) {
	w := team()
	var minutes atomic.Int64
	m := mount(t, w, alice, keepsSoon, func(c *Config) {
		c.clock = func() time.Time { return time.Unix(0, 0).Add(time.Duration(minutes.Load()) * time.Minute) }
	})
	for _, name := range []string{"/team/f", "/team/g"} {
		ok(t, m.save(name, "x"))
	}
	w.Fail("set attributes", &sdk.Error{Op: "set attributes", Kind: sdk.ErrRateLimited, Err: errors.New("too many requests")})
	give(t, m.file("/team/f"), someAttributes())
	give(t, m.file("/team/g"), someAttributes())
	proctest.Eventually(t, "both were refused", func() bool {
		left := m.Pending()
		return len(left) == 2 && left[0].Error != "" && left[1].Error != ""
	})
	if left := m.Drain(t.Context()); len(left) != 2 {
		t.Errorf("left: %+v", left)
	}
	if got := strings.Count(string(m.errors.Show()), "\tset attributes\t"); got != 1 {
		t.Errorf("%d lines in errors, want one for all files", got)
	}
	m.wantAttributes("/team/f", someAttributes())
	w.Fail("set attributes", nil)
	proctest.Eventually(t, "the service is asked again", func() bool {
		minutes.Add(1)
		m.look.Tick(t.Context())
		return len(m.Pending()) == 0
	})
	mount(t, w, bob, keeps).wantAttributes("/team/g", someAttributes())
}

// W16: what the service refuses for good lasts as long as the mount, and errors says so.
func TestW16RefusedAttributesStayHere(t *testing.T) {
	w := team()
	m := mount(t, w, alice, keepsSoon)
	ok(t, m.save("/team/f", "x"))
	w.Fail("set attributes", &sdk.Error{Op: "set attributes", Kind: sdk.ErrInvalid, Err: errors.New("not those")})
	m.file("/team/f").SetMode(0o700)
	proctest.Eventually(t, "a line in errors", func() bool { return strings.Contains(string(m.errors.Show()), "not those") })
	if p := m.Pending(); len(p) > 0 {
		t.Errorf("pending: %+v", p)
	}
	if !m.file("/team/f").Attr().Executable {
		t.Error("the mode is lost")
	}
	m.drained()
	m.wantRequests(1)
}

// W16: at uploads of others, in a group of others, modes and times last as long as the
// mount, and attributes that would be lost are refused. So at a service that records none.
func TestW16AttributesThatAreNotRecorded(t *testing.T) {
	for _, tc := range []struct {
		what   string
		who    sdk.AccountID
		by     sdk.AccountID
		option func(*Config)
		xattr  Class // of setting one
	}{
		{"another account's file", bob, alice, keeps, ClassByDesign},
		{"another account's file, to the owner of the group", alice, bob, keeps, ClassOther},
		{"a service without attributes", alice, alice, func(*Config) {}, ClassUnsupported},
	} {
		t.Run(tc.what, func(t *testing.T) {
			w := team()
			w.Put("team", tc.by, "f", []byte("x"))
			m := mount(t, w, tc.who, tc.option)
			f := m.file("/team/f")
			f.SetMode(0o755)
			f.SetTimes(someAttributes().ModTime)
			err := f.SetXattr("user.note", "x", XattrSet)
			if tc.xattr != ClassOther {
				wantClass(t, err, tc.xattr)
				m.drained()
				m.wantRequests(0)
			} else {
				ok(t, err)
				m.drained()
				m.wantRequests(1)
			}
			if a := f.Attr(); a.Mode != 0o755 || !a.Mtime.Equal(someAttributes().ModTime) {
				t.Errorf("shown are %+v", a)
			}
			m.wantCharges(0, 0)
		})
	}
}

// W16: extended attributes are as on other file systems, within their limits.
func TestW16ExtendedAttributes(t *testing.T) {
	w := team()
	m := mount(t, w, alice, keeps)
	ok(t, m.save("/team/f", "x"))
	f := m.file("/team/f")
	ok(t, f.SetXattr("user.a", "1", XattrCreate))
	ok(t, f.SetXattr("user.a", "2", XattrReplace))
	ok(t, f.SetXattr("user.empty", "", XattrSet))
	wantClass(t, f.SetXattr("user.a", "3", XattrCreate), ClassExist)
	wantClass(t, f.SetXattr("user.b", "3", XattrReplace), ClassNoAttribute)
	wantClass(t, f.SetXattr("user.b", strings.Repeat("b", format.MaxAttributeBytes), XattrSet), ClassNoSpace)
	wantClass(t, f.SetXattr("user.svcfs.ref", "x", XattrSet), ClassUnsupported)
	wantClass(t, f.SetXattr("user.\xff", "x", XattrSet), ClassUnsupported)
	wantClass(t, f.SetXattr("user.", "x", XattrSet), ClassUnsupported)
	wantClass(t, f.RemoveXattr("user.b"), ClassNoAttribute)
	ok(t, f.RemoveXattr("user.a"))
	if got := f.Xattrs(); got["user.svcfs.ref"] == "" || got["user.svcfs.ref"] == "x" {
		t.Errorf("the attributes are %v", got)
	}
	m.drained()
	m.wantRequests(1)
	again := mount(t, w, bob, keeps).file("/team/f")
	if value, there := again.Xattr("user.empty"); !there || value != "" {
		t.Errorf("user.empty is %q, %v", value, there)
	}
	if _, there := again.Xattr("user.a"); there {
		t.Error("user.a is there again")
	}
	wantClass(t, m.node("/.svcfs/status").(*File).SetXattr("user.a", "1", XattrSet), ClassByDesign)
}

// W16: a member cannot pass an attribute off as one of the mount's own.
func TestW16AttributesOfOthersAreNotTheMounts(t *testing.T) {
	w := team()
	w.PutWith("team", alice, "f", []byte("x"), sdk.Attributes{XAttrs: map[string]string{"user.svcfs.uploader": "bob", "user.svcfs.none": "x"}})
	f := mount(t, w, bob, keeps).file("/team/f")
	if got := f.Xattrs(); got["user.svcfs.uploader"] != string(alice) || got["user.svcfs.none"] != "" {
		t.Errorf("the attributes are %v", got)
	}
	if value, there := f.Xattr("user.svcfs.uploader"); there {
		t.Errorf("the attribute is %q", value)
	}
}

// W16: times that no record can hold become the nearest that can.
func TestW16TimesThatNoRecordHolds(t *testing.T) {
	w := team()
	m := mount(t, w, alice, keeps)
	ok(t, m.save("/team/f", "x"))
	for year, want := range map[int]int{1: 1677, 1500: 1677, 1969: 1969, 2999: 2262} {
		m.file("/team/f").SetTimes(time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC))
		m.drained()
		if got := mount(t, w, bob, keeps).file("/team/f").Attr().Mtime.UTC().Year(); got != want {
			t.Errorf("%d becomes %d, want %d", year, got, want)
		}
	}
}

// W16: a listing from before a change of this mount does not take the change back.
func TestW16ListingFromBeforeAChange(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("x"))
	m, r := race(t, w, keeps)
	for _, when := range []time.Time{time.Unix(1, 0), time.Unix(2, 0)} {
		f := m.file("/team/f")
		w.Put("team", bob, "f", []byte("to be listed"))
		w.Shred("team", w.Rows("team")[len(w.Rows("team"))-1].Ref)
		r.afterEntries = func() {
			f.SetTimes(when)
			ok(t, f.keepNow(t.Context()))
		}
		m.refresh()
		m.wantAttributes("/team/f", sdk.Attributes{ModTime: when})
	}
}

var _ Kernel = (*toldOf)(nil)

// R1: a program that opens a file without waiting, as rsync does to change its mode,
// retrieves with the first read.
func TestR1OpenWithoutWaiting(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("content"))
	m := mount(t, w, alice, keeps)
	h := m.open("/team/f", OpenFlags{Read: true, NoWait: true})
	defer h.Release()
	h.File().SetMode(0o755)
	m.wantCharges(0, 0)
	w.Fail("retrieve", &sdk.Error{Op: "retrieve", Kind: sdk.ErrUnavailable})
	_, err := readAll(t, h)
	wantClass(t, err, ClassUnreachable)
	w.Fail("retrieve", nil)
	for range 2 {
		if got, err := readAll(t, h); got != "content" || err != nil {
			t.Errorf("it reads %q, %v", got, err)
		}
	}
	m.wantCharges(1, 0)
}
