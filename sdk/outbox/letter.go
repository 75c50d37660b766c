package outbox

import (
	"context"
	"io"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
)

// Letter is an upload that is ready to be sent. [*sdk.Sealed] is one.
type Letter interface {
	ID() string
	Account() sdk.AccountID
	Group() sdk.GroupID // "" while it is locked
	Name() string
	Hash() sdk.Digest
	Attributes() sdk.Attributes
	Size() int64 // of the content, in bytes
	Time() time.Time
	Epoch() int64
	Base() (ref sdk.Ref, set bool)
	Locked() bool
	HasKey() bool
	IsIn(sdk.DiskKeys, sdk.GroupID) bool
	Encode(sdk.DiskKeys) ([]byte, error)
	BlobSize() int64
	Ciphertext() io.ReaderAt
	KeepIn(io.ReaderAt)
	Content(*mem.Buffer) error
	Readdress(g sdk.GroupID, name string, base *sdk.Ref) error
	Wipe()
}

// Remote is the service as the outbox uses it. [Service] implements it.
type Remote interface {
	Account() sdk.AccountID
	// Seal makes a letter of content, which stays the caller's. base is as of [sdk.Base]; nil
	// demands nothing.
	Seal(ctx context.Context, g sdk.GroupID, name string, content []byte, base *sdk.Ref, a sdk.Attributes) (Letter, error)
	// Decode reads what Letter.Encode wrote.
	Decode(raw []byte, k sdk.DiskKeys) (Letter, error)
	// Send has letters recorded, in their order.
	Send(ctx context.Context, letters []Letter) []sdk.Sent
	// Open fetches the key of a letter of g. Members only.
	Open(ctx context.Context, l Letter, g sdk.GroupID) error
	// OpenFor is Open for a letter that is to go to another group, of which the account is a member.
	OpenFor(ctx context.Context, l Letter, to sdk.GroupID) error
	// Entries lists the records of a group.
	Entries(ctx context.Context, g sdk.GroupID) ([]sdk.Entry, error)
	// Groups lists the groups of the account.
	Groups(ctx context.Context) ([]sdk.Group, error)
}

// Service is a client as a [Remote].
type Service struct {
	*sdk.Client
	// State is the folder that remembers which parts of large saves were sent; "" = nowhere.
	State string
}

// Seal is [sdk.Group.Seal].
func (s Service) Seal(ctx context.Context, g sdk.GroupID, name string, content []byte, base *sdk.Ref,
	a sdk.Attributes) (Letter, error) {
	opts := []sdk.SealOption{sdk.WithAttributes(a)}
	if base != nil {
		opts = append(opts, sdk.Base(*base))
	}
	l, err := s.Group(g).Seal(ctx, name, content, opts...)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Decode is [sdk.DecodeSealed].
func (s Service) Decode(raw []byte, k sdk.DiskKeys) (Letter, error) {
	l, err := sdk.DecodeSealed(raw, k)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Send is [sdk.Client.SendSealed].
func (s Service) Send(ctx context.Context, letters []Letter) []sdk.Sent {
	list := make([]*sdk.Sealed, len(letters))
	for i, l := range letters {
		list[i] = l.(*sdk.Sealed) // Seal and Decode make no other
		list[i].ResumeIn(s.State)
	}
	return s.SendSealed(ctx, list...)
}

// Open is [sdk.Client.OpenSealed].
func (s Service) Open(ctx context.Context, l Letter, g sdk.GroupID) error {
	return s.OpenSealed(ctx, l.(*sdk.Sealed), g)
}

// OpenFor is [sdk.Client.OpenSealedFor].
func (s Service) OpenFor(ctx context.Context, l Letter, to sdk.GroupID) error {
	return s.OpenSealedFor(ctx, l.(*sdk.Sealed), to)
}

// Entries is [sdk.Group.Entries].
func (s Service) Entries(ctx context.Context, g sdk.GroupID) ([]sdk.Entry, error) {
	return s.Group(g).Entries(ctx)
}

// LargeLetter is a [Letter] whose content may be in blocks, too large for one request: then ok is true.
type LargeLetter interface {
	Letter
	Layout() (l format.Layout, ok bool)
}

// LargeBody is content in blocks, open for reading. [*sdk.SealedBlocks] is one.
type LargeBody interface {
	Layout() format.Layout
	Read(ctx context.Context, first int64, into []*mem.Buffer) error
}

// LargeRemote is a [Remote] that takes saves in blocks.
type LargeRemote interface {
	Remote
	// SealLarge is Seal for content of any size.
	SealLarge(ctx context.Context, g sdk.GroupID, name string, content sdk.LargeContent, base *sdk.Ref,
		a sdk.Attributes) (LargeLetter, error)
	// OpenBody opens the content of a letter of SealLarge, whose ciphertext is body.
	OpenBody(l Letter, body io.ReaderAt) (LargeBody, error)
}

// OpenBody is [sdk.Sealed.OpenBody].
func (s Service) OpenBody(l Letter, body io.ReaderAt) (LargeBody, error) {
	b, err := l.(*sdk.Sealed).OpenBody(body)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// SealLarge is [sdk.Group.SealLarge].
func (s Service) SealLarge(ctx context.Context, g sdk.GroupID, name string, content sdk.LargeContent, base *sdk.Ref,
	a sdk.Attributes) (LargeLetter, error) {
	opts := []sdk.UploadOption{sdk.WithAttributes(a)}
	if base != nil {
		opts = append(opts, sdk.Base(*base))
	}
	l, err := s.Group(g).SealLarge(ctx, name, content, opts...)
	if err != nil {
		return nil, err
	}
	return l, nil
}

var _ LargeRemote = Service{}

// layoutOf returns how the content of a letter is cut, if it is.
func layoutOf(l Letter) (format.Layout, bool) {
	if large, ok := l.(LargeLetter); ok {
		return large.Layout()
	}
	return format.Layout{}, false
}
