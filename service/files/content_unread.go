package files

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
)

// maxUnread bounds how many reads are remembered whose bytes the service could not give.
const maxUnread = 10_000

// unread remembers who paid for a file whose bytes the disk or the bucket did not give then, or whose key the vault did
// not: until claimLife has passed, or the file is read as a whole. One in blocks is not, so its other blocks are
// free as long: who pays with a claim id has no less. It is safe for concurrent use.
type unread struct {
	mu sync.Mutex
	at map[paidRead]unreadMark
}

type unreadMark struct {
	at  time.Time
	key bool // the key alone was not given
}

func (m unreadMark) ended() bool { return time.Since(m.at) >= claimLife }

type paidRead struct{ account, ref string }

// CouldNotRead notes that an account paid for bytes of a file that could not be read, and returns the
// refusal that tells it. The account's next retrievals of the file cost nothing.
func (f *Files) CouldNotRead(account, ref string, cause error) error {
	f.unread.note(account, ref, false)
	return &fault.Error{Code: wire.CodeBlobCorrupt, Err: cause,
		Text: "the service cannot read the stored ciphertext of this file: only its operator can mend this; the next " +
			"attempt costs nothing"}
}

// Unreadable is how many reads failed within the last hour because of the service's own disk or
// bucket, and did not succeed since.
func (f *Files) Unreadable() (n int) {
	u := &f.unread
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forgetEnded()
	for _, m := range u.at {
		if !m.key {
			n++
		}
	}
	return n
}

// forgetEnded forgets marks whose time is over. The caller holds mu.
func (u *unread) forgetEnded() {
	maps.DeleteFunc(u.at, func(_ paidRead, m unreadMark) bool { return m.ended() })
}

// IsUnread reports that an account paid for a file whose bytes could not be read then, or whose key was not given.
func (f *Files) IsUnread(account, ref string) bool {
	u := &f.unread
	u.mu.Lock()
	defer u.mu.Unlock()
	m, ok := u.at[paidRead{account, ref}]
	return ok && !m.ended()
}

func (u *unread) note(account, ref string, key bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.at == nil {
		u.at = make(map[paidRead]unreadMark)
	}
	if len(u.at) >= maxUnread {
		u.forgetEnded()
	}
	read := paidRead{account, ref}
	if was, there := u.at[read]; there || len(u.at) < maxUnread {
		u.at[read] = unreadMark{time.Now(), key && (!there || was.key || was.ended())}
	}
}

// given forgets a read whose key was given, with all bytes or with those of its blocks to come.
func (u *unread) given(account, ref string, whole bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if read := (paidRead{account, ref}); whole || u.at[read].key {
		delete(u.at, read)
	}
}

// readAgain reads a whole blob that could not be read before it is retrieved once more.
func (f *Files) readAgain(ctx context.Context, row file) error {
	r, err := f.openBlob(ctx, row.blob)
	if err != nil {
		return err
	}
	defer r.Close()
	return checkSum(r, row.blob)
}
