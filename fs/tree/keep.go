package tree

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk"
)

// Attributes of an uploaded file that change without its content are recorded by one free
// request (W16). Programs change them one after the other, so the request waits a moment and
// has all of them; a save that comes first has them instead.

const (
	// delayedRequests is how many such requests there are at a time.
	delayedRequests = 8
	// setAttributes is the action whose price the requests have.
	setAttributes = "set_attributes"
)

// unkept are attributes that wait to be recorded.
type unkept struct {
	since  time.Time
	armed  bool   // a request is about to be sent
	failed *Error // of the last attempt; nil when none failed
}

// isKept reports whether the attributes of f can be recorded apart from its content, and e,
// which is the newest form of its record. Needs Tree.mu.
func (f *File) isKept() (e *sdk.Entry, ok bool) {
	if !f.isKind(fileReal) || f.dir == nil || f.group.gone || f.group.isReader() {
		return nil, false
	}
	e = f.record()
	return e, e != nil && e.Deleted == nil && !isWaiting(e) && f.group.mayKeep(e)
}

// mayKeep reports whether the service records attributes of an upload for this account.
func (g *group) mayKeep(e *sdk.Entry) bool {
	t := g.dir.t
	return t.cfg.Ours && !t.cfg.ReadOnly && !g.waste && (g.owned || !t.isForeign(e))
}

// isChanging reports whether the next save has the attributes.
func (f *File) isChanging() bool { return f.now.IsStaged() && !f.now.Is(content.Copied) }

// keep has the attributes recorded in a moment, if they differ from the record and no save
// is to come. It takes no body.mu.
func (f *File) keep() {
	if !f.t.cfg.Ours || f.isChanging() {
		return
	}
	f.t.mu.RLock()
	_, ok := f.isKept()
	f.t.mu.RUnlock()
	if !ok || !f.arm() {
		return
	}
	f.t.unrecorded.keeping.do(func(ctx context.Context) {
		if err := f.keepNow(ctx); err != nil && ctx.Err() == nil {
			f.t.unrecorded.noteUnkept(f, err)
		}
	})
}

// arm reports whether a request has to be begun.
func (f *File) arm() bool {
	_, differs := f.wanted(false)
	f.lock.Lock()
	defer f.lock.Unlock()
	if !differs {
		f.settleKept()
		return false
	}
	if f.unkept == nil {
		f.unkept = &unkept{since: f.t.now()}
		f.t.unrecorded.kept.add(f)
	}
	if f.unkept.armed {
		return false
	}
	f.unkept.armed = true
	return true
}

// settleKept notes that nothing waits. Needs attributes.lock.
func (f *File) settleKept() {
	f.unkept = nil
	f.t.unrecorded.kept.remove(f)
}

// forgetUnkept is settleKept for a caller without the lock.
func (f *File) forgetUnkept() {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.settleKept()
}

// keepNow records the attributes, unless the next save has them. An error that another
// attempt may end leaves them waiting; after any other they last as long as the mount.
func (f *File) keepNow(ctx context.Context) error {
	if err := f.nameGate().Enter(ctx); err != nil {
		return err
	}
	defer f.nameGate().Leave()
	f.lock.Lock()
	if f.unkept != nil {
		f.unkept.armed = false
	}
	f.lock.Unlock()
	if f.isChanging() {
		return nil
	}
	f.t.mu.Lock()
	g := f.group
	e, ok := f.isKept()
	if ok {
		f.take(e)
	}
	f.t.mu.Unlock()
	want, differs := f.wanted(false)
	if !ok || !differs {
		f.forgetUnkept()
		return nil
	}
	var kept sdk.Entry
	err := f.t.spent.Spend(setAttributes, func() (_ sdk.Amount, err error) {
		kept, err = f.t.remote.SetAttributes(ctx, g.id, e.Ref, want)
		return sdk.Amount{}, err
	})
	if err != nil {
		return f.unkeptAfter(wrapRemote("set attributes", "", err))
	}
	f.t.unrecorded.keepsFail.Store(false)
	f.setSaved(&want, false)
	g.applyOwn(ctx, []sdk.Entry{*e}, []sdk.Entry{kept})
	f.keepRest()
	return nil
}

// keepRest begins anew if a program changed something meanwhile.
func (f *File) keepRest() {
	if _, differs := f.wanted(false); differs {
		f.keep()
		return
	}
	f.forgetUnkept()
}

// unkeptAfter notes a failure, which it returns unless the file is gone.
func (f *File) unkeptAfter(failed *Error) error {
	f.lock.Lock()
	defer f.lock.Unlock()
	switch {
	case failed.Class == ClassNotExist:
		f.settleKept()
		return nil
	case !failed.Class.isAway() && failed.Class != ClassInterrupted:
		f.settleKept()
	case f.unkept == nil:
		f.unkept = &unkept{since: f.t.now()}
		f.t.unrecorded.kept.add(f)
		fallthrough
	default:
		f.unkept.failed = failed
	}
	return failed
}

// take takes a newer form of the record of the file. It reports whether stat answers
// something else now. Needs Tree.mu.
func (f *File) take(e *sdk.Entry) (changed bool) {
	f.entry.Store(e)
	return f.learn(e)
}

// isUnkept reports whether attributes wait for the service to come back, and for nothing else.
func (f *File) isUnkept() bool {
	if f.isChanging() {
		return false
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.unkept != nil && !f.unkept.armed && f.unkept.failed != nil
}

// SetMode keeps permission bits for this mount. The owner's execute bit is recorded, where the
// service can and the account may (W16). The mode of a link never changes (N6). Free.
func (f *File) SetMode(mode uint32) {
	if f.IsLink() {
		return
	}
	f.setMode(mode)
	f.keep()
}

// SetFirstMode is SetMode for a file that a program has just made; the mode of any other
// file stays.
func (f *File) SetFirstMode(mode uint32) {
	f.lock.Lock()
	moded := f.moded
	f.lock.Unlock()
	if !moded && f.entry.Load() == nil {
		f.setMode(mode)
	}
}

// SetTimes keeps a modification time until the content changes. It is recorded as the
// execute bit is (W16). Free.
func (f *File) SetTimes(mtime time.Time) {
	f.setTimes(mtime)
	f.keep()
}

// SetMode keeps permission bits for this mount only (W10).
func (d *Dir) SetMode(mode uint32) { d.setMode(mode) }

// SetTimes keeps a modification time for this mount only (W10).
func (d *Dir) SetTimes(mtime time.Time) { d.setTimes(mtime) }

// XattrChange says whether an extended attribute may be there before.
type XattrChange uint8

// What [File.SetXattr] does with one that is there, or is not.
const (
	XattrSet     XattrChange = iota // either
	XattrCreate                     // there: ClassExist
	XattrReplace                    // not there: ClassNoAttribute
)

// Xattr returns an extended attribute that a program set, here or in another mount.
func (f *File) Xattr(name string) (value string, ok bool) {
	if strings.HasPrefix(name, format.ReservedPrefix) {
		return "", false
	}
	return f.xattr(name)
}

// SetXattr sets an extended attribute of the namespace user. It is recorded as the execute
// bit is (W16); what would be lost is refused. Free.
func (f *File) SetXattr(name, value string, how XattrChange) error {
	if err := f.mayChangeXattr("set attribute", name); err != nil {
		return err
	}
	refused := f.setXattrs(func(all map[string]string) *Error {
		_, there := all[name]
		if there && how == XattrCreate {
			return &Error{Class: ClassExist, Err: errors.New("the file has the attribute already")}
		}
		if !there && how == XattrReplace {
			return noAttribute()
		}
		all[name] = value
		if n := xattrBytes(all); n > format.MaxAttributeBytes {
			return &Error{Class: ClassNoSpace, Err: errors.New("names and values of attributes would take " +
				report.ByteText(int64(n)) + " of the " + report.ByteText(format.MaxAttributeBytes) +
				" that a file may have"),
				Hint: "Remove attributes first: getfattr -d FILE lists them, setfattr -x NAME FILE removes one."}
		}
		return nil
	})
	return f.changedXattr("set attribute", refused)
}

// RemoveXattr removes an extended attribute of the namespace user.
func (f *File) RemoveXattr(name string) error {
	if err := f.mayChangeXattr("remove attribute", name); err != nil {
		return err
	}
	refused := f.setXattrs(func(all map[string]string) *Error {
		if _, there := all[name]; !there {
			return noAttribute()
		}
		delete(all, name)
		return nil
	})
	return f.changedXattr("remove attribute", refused)
}

func noAttribute() *Error {
	return &Error{Class: ClassNoAttribute, Err: errors.New("the file has no such attribute")}
}

func (f *File) changedXattr(op string, refused *Error) error {
	switch {
	case refused == nil:
		f.keep()
		return nil
	case refused.Class == ClassNoSpace:
		return f.failed(op, refused)
	default:
		return plain(refused.Class, op, f.Path(), refused.Err.Error())
	}
}

// mayChangeXattr refuses what nothing would keep. Copying tools set the attributes
// that they found on a file of a mount: no line tells of those.
func (f *File) mayChangeXattr(op, name string) error {
	if err := f.Changeable(op); err != nil {
		return err
	}
	if strings.HasPrefix(name, format.ReservedPrefix) {
		return plain(ClassUnsupported, op, f.Path(), "the mount makes the attributes "+format.ReservedPrefix+"*")
	}
	if refused := f.losesXattr(name); refused != nil {
		return f.failed(op, refused)
	}
	return nil
}

// losesXattr returns why an extended attribute of f would be lost, nil if it would not.
func (f *File) losesXattr(name string) *Error {
	switch {
	case f.show != nil:
		return controlOnly()
	case f.isKind(fileVersion):
		return oldVersion()
	case !f.t.cfg.Ours:
		return &Error{Class: ClassUnsupported, Err: errors.New("the service records no attributes of files")}
	}
	if (&sdk.Attributes{XAttrs: map[string]string{name: ""}}).Check() != nil {
		return &Error{Class: ClassUnsupported,
			Err: errors.New("only attributes named user.NAME are recorded, in UTF-8")}
	}
	if f.isChanging() {
		return nil
	}
	f.t.mu.RLock()
	defer f.t.mu.RUnlock()
	if e := f.record(); e != nil && f.isKind(fileReal) && !f.group.mayKeep(e) {
		return uploadedBy(e.Uploader, "change the attributes of")
	}
	return nil
}
