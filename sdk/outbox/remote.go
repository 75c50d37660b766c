package outbox

import (
	"context"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/saving"
)

// Key is the key of a journal. [*saving.JournalKey] is one.
type Key interface {
	// Derive returns the key of one thing that the journal holds.
	Derive(domain string, salt []byte) (*format.Key, error)
	Wipe()
}

// Remote is the service as the outbox uses it. [Service] implements it.
type Remote interface {
	Account() sdk.AccountID
	// NewJournal makes the key of a journal for saves of a group. It is local once the vault of the service is known.
	NewJournal(ctx context.Context, g sdk.GroupID) (Key, saving.SealedJournalKey, error)
	// OpenJournal fetches the key of a journal of this account. Members of the group only.
	OpenJournal(ctx context.Context, g sdk.GroupID, sealed saving.SealedJournalKey) (Key, error)
	// SealJournal seals the key of a journal anew, to the newest key of the vault.
	SealJournal(ctx context.Context, g sdk.GroupID, k Key) (saving.SealedJournalKey, error)
	// EndJournal has the service open the key of a journal no more.
	EndJournal(ctx context.Context, sealed saving.SealedJournalKey) error
	// NewSave returns a new id for a save of a group. Local.
	NewSave(g sdk.GroupID) (saving.Save, error)
	// Send has saves recorded, in their order.
	Send(ctx context.Context, list []*Upload) []Sent
	// Forget closes what the service has open of a group that the account lost; "" = of all groups.
	Forget(g sdk.GroupID)
	// Groups lists the groups of the account.
	Groups(ctx context.Context) ([]sdk.Group, error)
}

// Sent is what became of an upload.
type Sent = saving.Sent[sdk.Receipt]

// Upload is a save that is sent. Sent again with the same Save, it is recorded once.
type Upload struct {
	Save       saving.Save
	Group      sdk.GroupID
	Name       string
	Base       *sdk.Ref // see [Save]
	Upon       *sdk.Ref // see [sdk.PutOptions]
	Attributes sdk.Attributes
	Size       int64      // of the content, in bytes
	Hash       sdk.Digest // of the content; zero = not known, of a large one that takes blocks from another version
	Content    *mem.Buffer
	Large      *LargeUpload // in the place of Content
}

// options are those of the upload.
func (u *Upload) options() sdk.PutOptions {
	return sdk.PutOptions{Attributes: u.Attributes, Base: u.Base, Upon: u.Upon}
}

// LargeUpload is the content of a large save that is sent.
type LargeUpload struct {
	Layout  format.Layout
	Changed format.Extents // blocks that Read returns; the others are those of From
	From    From
	Open    OpenBase // may be nil
	// Read fills into with a changed block, and returns its length. It may be called by several goroutines.
	Read func(block int64, into []byte) (int, error)
	// Sent are the parts that an earlier attempt gave to Keep, which several goroutines may call.
	Sent []saving.Part
	Keep func(saving.Part)
}

// From is the recorded version that a large save takes its unchanged blocks from. The zero value: from none.
type From struct {
	Group sdk.GroupID `json:"group,omitempty"`
	Ref   sdk.Ref     `json:"ref,omitempty"`
}

// Blocks are the blocks of a recorded version, open for reading. [*sdk.Blocks] is one.
type Blocks interface {
	Layout() format.Layout
	Read(ctx context.Context, first int64, into []*mem.Buffer) error
}

// OpenBase opens the version that a save takes blocks from. The caller calls done at the end.
type OpenBase func(ctx context.Context) (b Blocks, done func(), err error)
