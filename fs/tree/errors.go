package tree

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/policy"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/fs/tree/save"
	"github.com/svcfs/svcfs/fs/tree/staging"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/wire"
)

// String returns the class in words, such as "refused by design".
func (c Class) String() string {
	names := [...]string{
		ClassOther: "other", ClassNotExist: "not found", ClassExist: "exists", ClassNotDir: "not a directory",
		ClassIsDir: "is a directory", ClassNotEmpty: "not empty", ClassByDesign: "refused by design",
		ClassAccess:  "not authorized",
		ClassRevoked: "revoked", ClassRejected: "credentials rejected", ClassBudget: "budget", ClassCorrupt: "corrupt",
		ClassUnreachable: "unreachable", ClassTimeout: "timeout", ClassInterrupted: "interrupted",
		ClassTooBig:   "too large",
		ClassNoMemory: "no memory", ClassReadOnly: "read-only", ClassCrossDevice: "across groups",
		ClassInvalid:     "invalid",
		ClassNameTooLong: "name too long", ClassBadHandle: "bad handle", ClassNoSpace: "storage full",
		ClassBusy:        "busy",
		ClassUnsupported: "unsupported", ClassStale: "stale", ClassNoAttribute: "no attribute",
		ClassConflict: "conflict",
	}
	if int(c) < len(names) {
		return names[c]
	}
	return names[ClassOther]
}

// classOf maps an error of the service to the class of the error that a program gets.
func classOf(kind sdk.Kind) Class {
	switch kind {
	case sdk.ErrAudience, sdk.ErrUnauthenticated:
		return ClassRejected
	case sdk.ErrNotFound, sdk.ErrDeleted:
		return ClassNotExist
	case sdk.ErrNotAuthorized:
		return ClassAccess
	case sdk.ErrInsufficient:
		return ClassBudget
	case sdk.ErrConflict:
		return ClassExist
	case sdk.ErrTooLarge:
		return ClassTooBig
	case sdk.ErrRateLimited, sdk.ErrUnavailable:
		return ClassUnreachable
	case sdk.ErrPending:
		return ClassBusy
	case sdk.ErrStorageFull:
		return ClassNoSpace
	case sdk.ErrCorrupt:
		return ClassCorrupt
	case sdk.ErrTimeout:
		return ClassTimeout
	case sdk.ErrCanceled:
		return ClassInterrupted
	case sdk.ErrInvalid:
		return ClassInvalid
	case sdk.ErrUnsupported:
		return ClassUnsupported
	default:
		return ClassOther
	}
}

// isAway reports whether the service did not answer. nil is an answer.
func isAway(err error) bool {
	return err != nil && wrapRemote("", "", err).Class.isAway()
}

// isAway reports whether the class stands for a service that did not answer.
func (c Class) isAway() bool { return c == ClassUnreachable || c == ClassTimeout }

// wrapRemote turns an error of the service, or of a context, into ours.
func wrapRemote(op, path string, err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return &Error{Class: own.Class, Op: op, Path: path, Err: own.Err, Hint: own.Hint}
	}
	var room *content.NoRoom
	var damaged *content.Damaged
	switch {
	case errors.As(err, &room):
		own = refused(room.Err)
	case errors.As(err, &damaged):
		own = &Error{Class: ClassCorrupt, Err: damaged}
	case errors.Is(err, content.ErrTaken):
		own = &Error{Class: ClassRevoked, Err: content.ErrTaken,
			Hint: "The account was revoked from the group, or the file was deleted."}
	}
	if own != nil {
		own.Op, own.Path = op, path
		return own
	}
	class := classOf(sdk.KindOf(err))
	var refused *sdk.Error
	if errors.As(err, &refused) {
		switch refused.Code {
		case wire.CodeListMemory:
			class = ClassNoMemory
		case wire.CodeNamesUnread: // one group, and nothing else of the service
			class = ClassBusy
		}
	}
	if class, hint := classOfSave(err); class != ClassOther {
		return &Error{Class: class, Op: op, Path: path, Err: err, Hint: hint}
	}
	if class == ClassOther {
		switch {
		case errors.Is(err, context.Canceled):
			class = ClassInterrupted
		case errors.Is(err, context.DeadlineExceeded):
			class = ClassTimeout
		}
	}
	return &Error{Class: class, Op: op, Path: path, Err: err}
}

// classOfSave is the class, and the next step, of an error of what is paid for or waits; ClassOther = it is another.
func classOfSave(err error) (Class, string) {
	switch {
	case errors.As(err, new(policy.OverBudget)):
		return ClassBudget, "Mount again with a larger --budget or --budget-per-hour."
	case errors.Is(err, outbox.ErrMoney):
		return ClassBudget, "Put tokens into the account, or discard what waits: svcfs outbox list"
	case errors.Is(err, outbox.ErrAway):
		return ClassUnreachable, "Try again once the service is back: svcfs outbox list shows what waits."
	case errors.Is(err, outbox.ErrLocked):
		return ClassUnreachable, "The key comes by itself once the service can be reached; svcfs outbox list shows " +
			"what waits."
	case errors.Is(err, outbox.ErrFull):
		return ClassNoSpace, "Saves go on once the service is back, or mount with a larger --outbox-size."
	case errors.Is(err, save.ErrWaits):
		return ClassBusy, "Look at it with: svcfs outbox list"
	case errors.Is(err, save.ErrSavedAgain):
		return ClassBusy, "Try again in a moment."
	case errors.Is(err, save.ErrRecorded):
		return ClassStale, ""
	case errors.Is(err, save.ErrTooLarge):
		return ClassTooBig, ""
	case errors.As(err, new(save.Damaged)):
		return ClassCorrupt, "svcfs outbox list shows it; the disk of this machine damaged it."
	}
	return ClassOther, ""
}

// goesOn reports whether another attempt may end the error of a save, and go on with what was sent.
func goesOn(err error) bool {
	class := wrapRemote("", "", err).Class
	return class.isAway() || class == ClassInterrupted || class == ClassBudget
}

// refused is the error of a change for which there is no room, or whose disk failed. The content is as it was (W12).
func refused(err error) *Error {
	var full *staging.Full
	switch {
	case errors.Is(err, staging.ErrSpool):
		return &Error{Class: ClassOther, Err: err, Hint: "Check the disk of the cache folder."}
	case !errors.As(err, &full):
		return &Error{Class: ClassNoMemory, Err: err}
	case full.Err != nil:
		return &Error{Class: ClassNoSpace,
			Err:  fmt.Errorf("the disk takes no more of the files being written: %w", full.Err),
			Hint: "Make room on the disk of the cache folder, or close other files first."}
	}
	held := errors.New("files being written already hold " + report.ByteText(full.Held) + " of the " +
		report.ByteText(full.Limit) + " allowed")
	if full.Disk {
		return &Error{Class: ClassNoSpace, Err: fmt.Errorf("%w on this machine's disk", held),
			Hint: "Close other files first, remove unfinished ones that .svcfs/pending lists, or mount with a larger " +
				"--spool-size."}
	}
	return &Error{Class: ClassNoMemory, Err: held,
		Hint: "Close other files first, remove unfinished ones that .svcfs/pending lists, or mount with a larger " +
			"--staging-size."}
}

// Note records a refusal that the kernel adapter made itself, as the tree does
// with its own: a line in /.svcfs/errors and in the log.
func (t *Tree) Note(err *Error) {
	hint := t.hint(err)
	t.errors.Add(failureOf(t.now(), err, hint))
	level := slog.LevelWarn
	if err.Class == ClassNotExist || err.Class == ClassExist || err.Class == ClassInterrupted {
		level = slog.LevelInfo
	}
	t.log.Log(context.Background(), level, "refused", "op", err.Op, "path", err.Path, "class", err.Class.String(),
		"reason", err.Err.Error(), "hint", hint)
	if stack := stackOf(err.Err); stack != "" {
		t.log.Error("please report this mistake of the program", "what", err.Err.Error(), "stack", stack)
	}
}

// failureOf is a failure as it is shown.
func failureOf(at time.Time, err *Error, hint string) report.Failure {
	return report.Failure{At: at, Path: err.Path, Op: err.Op, Class: err.Class.String(), Text: err.Err.Error(),
		Hint: hint, Err: err}
}

// hint returns the next step after err: its own, or that of [Config.Hint] for its cause.
func (t *Tree) hint(err *Error) string {
	if err.Hint == "" && t.cfg.Hint != nil {
		return t.cfg.Hint(err.Err)
	}
	return err.Hint
}

// fail returns err, and notes it unless it is an everyday answer about names (E1).
func (t *Tree) fail(op, path string, err error) error {
	own := wrapRemote(op, path, err)
	switch own.Class {
	case ClassNotDir, ClassIsDir, ClassNotEmpty:
	default:
		t.Note(own)
	}
	return own
}

// plain returns an error without noting it: the everyday answers of look-ups.
func plain(class Class, op, path, text string) error {
	return &Error{Class: class, Op: op, Path: path, Err: errors.New(text)}
}
