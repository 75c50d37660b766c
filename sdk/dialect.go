package sdk

import (
	"context"
	"errors"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
)

// dialect is what a client does in another way at the hosted service than at one of ours. The capabilities choose it.
type dialect interface {
	hasBlocks() bool     // files may be of format version 2
	maxUpload() int64    // of the largest file, in plaintext bytes
	namesPage() int      // of a list of groups, in names; 0 = such lists have no pages
	rawTransfer() string // of [wire.PrepareRetrieveRequest]
	// list lists files and folders of a group, those that changed since at least.
	list(ctx context.Context, g GroupID, o listing) ([]Entry, error)
	// readPrice returns the price of a list of the group, "" = of groups.
	readPrice(ctx context.Context, g GroupID) (Amount, error)
}

// dialect returns the dialect of the service.
func (k *capabilities) dialect(ctx context.Context) (dialect, error) {
	caps, err := k.c.Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	return k.dialectOf(caps), nil
}

func (k *capabilities) dialectOf(caps wire.Capabilities) dialect {
	if caps.Dialect.IsOurs() {
		return ourDialect{k.c, caps}
	}
	return hostedDialect{k.c, caps}
}

// ourDialect is that of svcd.
type ourDialect struct {
	c    *Client
	caps wire.Capabilities
}

func (ourDialect) hasBlocks() bool     { return true }
func (o ourDialect) maxUpload() int64  { return maxBlocks(o.caps) }
func (ourDialect) namesPage() int      { return wire.MaxPageNames }
func (ourDialect) rawTransfer() string { return wire.TransferRaw }

func (o ourDialect) list(ctx context.Context, g GroupID, l listing) ([]Entry, error) {
	return o.c.chains.entries(ctx, g, l)
}

func (ourDialect) readPrice(context.Context, GroupID) (Amount, error) { return Amount{}, nil }

// oursOnly are the operations that only a service of ours has. Each completes the sentence "the service does not offer
// to".
var oursOnly = map[string]string{
	wire.OpDeleteFile:        "delete files",
	wire.OpRenameFile:        "rename files",
	wire.OpSetAttributes:     "change the attributes of files",
	wire.OpRenameFolder:      "rename folders",
	wire.OpMakeFolder:        "record folders",
	wire.OpRemoveFolder:      "record folders",
	wire.OpWatch:             "watch",
	wire.OpGetPending:        "delay destruction",
	wire.OpKeepFiles:         "delay destruction",
	wire.OpGetStorage:        "report stored bytes",
	wire.OpSealAPIKey:        "take API keys sealed alone",
	wire.OpGetNames:          "prove single names",
	wire.OpRemoveFile:        "keep removed files",
	wire.OpRestoreFile:       "keep removed files",
	wire.OpSetGroupTrash:     "keep removed files",
	wire.OpGetTrash:          "keep removed files",
	wire.OpSetGroupVersions:  "take older versions away",
	wire.OpGetGroupVersions:  "take older versions away",
	wire.OpTryGroupVersions:  "take older versions away",
	wire.OpSetGroupSettings:  "store files of format version 2, merge appends, or give keys sealed alone",
	wire.OpGetGroupSettings:  "store files of format version 2, merge appends, or give keys sealed alone",
	wire.OpLeaveGroup:        "let members leave",
	wire.OpOfferGroup:        "hand groups over",
	wire.OpAcceptGroup:       "hand groups over",
	wire.OpDeleteGroup:       "delete groups",
	wire.OpInviteToGroup:     "invite members",
	wire.OpGetGroupInvites:   "invite members",
	wire.OpRevokeGroupInvite: "invite members",
	wire.OpUseGroupInvite:    "invite members",
	wire.OpOpenJournalKey:    "open the key of a journal",
	wire.OpEndJournal:        "end a journal",
}

// offers returns [ErrUnsupported], and sends nothing, for an operation that the service does not have.
func (k *capabilities) offers(ctx context.Context, op string) error {
	if does, only := oursOnly[op]; only {
		return k.needOurs(ctx, does)
	}
	return nil
}

// needOurs returns [ErrUnsupported] if the service does not speak our dialect. does completes the
// sentence "the service does not offer to".
func (k *capabilities) needOurs(ctx context.Context, does string) error {
	caps, err := k.c.Capabilities(ctx)
	if err != nil || caps.Dialect.IsOurs() {
		return err
	}
	return &Error{Op: does, Kind: ErrUnsupported, Err: errors.New("the service does not offer to " + does)}
}

// hostedDialect is that of the hosted service.
type hostedDialect struct {
	c    *Client
	caps wire.Capabilities
}

func (hostedDialect) hasBlocks() bool     { return false }
func (h hostedDialect) maxUpload() int64  { return h.c.uploads.maxWhole(h.caps) }
func (hostedDialect) namesPage() int      { return 0 }
func (hostedDialect) rawTransfer() string { return "" }

// list reads all rows in one answer. Nothing proves them: they count as soon as they are there, one answer at a time.
func (h hostedDialect) list(ctx context.Context, g GroupID, _ listing) ([]Entry, error) {
	end, err := h.c.lists.begin(ctx, h.c.lists.whole)
	if err != nil {
		return nil, err
	}
	defer end()
	var all page
	err = h.c.read(ctx, wire.OpGetGroupTransactions, wire.TransactionsRequest{GroupID: string(g)}, &all)
	if errors.Is(err, call.ErrTooMuch) &&
		h.c.tools.limit(wire.OpGetGroupTransactions) == h.c.cfg.ListMemory/wholeShare {
		err = h.c.lists.full()
	}
	if err != nil {
		return nil, err
	}
	held := footprints(all.rows)
	defer func() { _ = h.c.lists.hold(-held) }()
	if err := h.c.lists.hold(held); err != nil {
		return nil, err
	}
	return appendEntries(nil, g, all.rows), nil
}

func (h hostedDialect) readPrice(ctx context.Context, g GroupID) (Amount, error) {
	if g == "" {
		return h.namesPrice(ctx)
	}
	var joinable bool
	err := h.c.rpc.view(ctx, "is_group_joinable", groupArgs{GroupID: g}, &joinable)
	err = h.c.wrap("ask how a group is read", g, "", err)
	switch KindOf(err) {
	case ErrUnavailable, ErrTimeout, ErrCanceled:
		return Amount{}, err
	}
	if joinable { // a contract without the view has no such groups
		return Amount{}, nil
	}
	return h.c.EstimateFee(ctx, "get_transactions_for_group")
}

// namesPrice returns the price of the two lists of groups. The service pays for them on the main network.
func (h hostedDialect) namesPrice(ctx context.Context) (sum Amount, err error) {
	if h.c.cfg.networkName() == Mainnet {
		return sum, nil
	}
	for _, action := range []string{wire.OpGetOwnedGroups, wire.OpGetMemberGroups} {
		fee, err := h.c.EstimateFee(ctx, action)
		if err != nil {
			return Amount{}, err
		}
		sum, _ = sum.Add(fee)
	}
	return sum, nil
}
