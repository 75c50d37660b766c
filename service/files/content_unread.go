package files

import (
	"context"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
)

// maxUnread bounds how many reads are remembered whose bytes the service could not give.
const maxUnread = 10_000

// unread remembers who paid for a file whose bytes the disk or the bucket did not give then: until
// claimLife has passed, or the file is read as a whole. One in blocks is not, so its other blocks are
// free as long: who pays with a claim id has no less. It is safe for concurrent use.
type unread struct {
	mu sync.Mutex
	at map[paidRead]time.Time
}

type paidRead struct{ account, ref string }

// CouldNotRead notes that an account paid for bytes of a file that could not be read, and returns the
// refusal that tells it. The account's next retrievals of the file cost nothing.
func (f *Files) CouldNotRead(account, ref string, cause error) error {
	u := &f.unread
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.at == nil {
		u.at = make(map[paidRead]time.Time)
	}
	if len(u.at) < maxUnread {
		u.at[paidRead{account, ref}] = time.Now()
	}
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
	for read, at := range u.at {
		if time.Since(at) >= claimLife {
			delete(u.at, read)
		}
	}
	return len(u.at)
}

// IsUnread reports that an account paid for a file whose bytes could not be read then.
func (f *Files) IsUnread(account, ref string) bool {
	u := &f.unread
	u.mu.Lock()
	defer u.mu.Unlock()
	at, ok := u.at[paidRead{account, ref}]
	return ok && time.Since(at) < claimLife
}

func (u *unread) forget(account, ref string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.at, paidRead{account, ref})
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
