package sdktest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/wire"
)

// operation is a row of the specification's table 4.2, or of what services offer
// beside it.
type operation struct {
	name    string // as the specification calls it
	needKey bool   // refused without an API key
	// try calls it as c for the suite's group, whose owner is alice; it may be
	// called by several accounts, one after the other.
	try func(ctx context.Context, c *sdk.Client, s *suite) error
	// refusals of a stranger, bob, who is not a member; none means that he may.
	stranger []sdk.Kind
	// ours tells that the hosted service refuses everybody as unsupported.
	ours bool
}

// operations checks the table row by row: who may call, and whether it needs
// authentication. What each returns is checked by the other parts of the suite.
func operations(t *testing.T, s *suite) {
	anonymous := dial(t, s.world, Account{ID: s.world.Bob.ID})
	for _, op := range table() {
		t.Run(op.name, func(t *testing.T) {
			ctx := t.Context()
			if op.ours && !s.isOurs(t) {
				for _, c := range []*sdk.Client{s.alice, s.bob, anonymous} {
					is(t, "not offered", op.try(ctx, c, s), sdk.ErrUnsupported)
				}
				return
			}
			ok(t, "the owner", op.try(ctx, s.alice, s))
			err := op.try(ctx, anonymous, s)
			if op.needKey {
				is(t, "without a key", err, sdk.ErrUnauthenticated)
			} else {
				ok(t, "without a key", err)
			}
			err = op.try(ctx, s.bob, s)
			if len(op.stranger) > 0 {
				is(t, "a stranger", err, op.stranger...)
			} else {
				ok(t, "a stranger", err)
			}
		})
	}
}

// table is specification 4.2 and what belongs to it, but for what no service can
// fail: a client's own hash and addresses. getTransactionsForGroup goes to the service and
// not to the ledger's free view, which the real contract refuses: it needs a key
// (wire protocol 11.1).
func table() []operation {
	member := []sdk.Kind{sdk.ErrNotAuthorized}
	return append(slices.Concat(fileOperations(member), groupOperations(member), moreOperations(member)),
		operation{name: "getBalance", try: func(ctx context.Context, c *sdk.Client, _ *suite) error { return second(c.Balance(ctx, "")) }},
		operation{name: "estimateFee", try: func(ctx context.Context, c *sdk.Client, _ *suite) error {
			return second(c.EstimateFee(ctx, "register_group"))
		}},
		operation{name: "readPrice", try: func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group).ReadPrice(ctx))
		}},
		operation{name: "refreshToken", needKey: true, try: func(ctx context.Context, c *sdk.Client, _ *suite) error { return c.RefreshToken(ctx) }},
	)
}

func fileOperations(member []sdk.Kind) []operation {
	return []operation{
		{"upload", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group).Put(ctx, "f", bytes.NewReader([]byte("content"))))
		}, member, false},
		{"retrieve", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			r, err := s.alice.Group(s.group).Put(ctx, "to be read", bytes.NewReader([]byte("content")))
			if err != nil {
				return err
			}
			b, err := mem.NewPool().Get(0)
			if err != nil {
				return err
			}
			defer b.Release()
			_, err = c.Group(sdk.Entry{Group: s.group, Ref: r.Ref, Hash: r.Hash, Size: r.Size}.Group).Retrieve(ctx, sdk.Entry{Group: s.group, Ref: r.Ref, Hash: r.Hash, Size: r.Size}, b)
			return err
		}, member, false},
		{"getTransactionsForGroup", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group).Entries(ctx))
		}, member, false},
	}
}

func groupOperations(member []sdk.Kind) []operation {
	return []operation{
		{"registerGroup", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group + "-of-" + sdk.GroupID(c.Account())).Register(ctx))
		}, nil, false},
		{"addGroupMember", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return undone(ctx, s, second(c.Group(s.group).Add(ctx, s.world.Bob.ID)))
		}, member, false},
		{"joinGroup", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			open := s.group + "-open"
			if _, err := s.alice.Group(open).OpenJoin(ctx, time.Now().Add(time.Hour)); err != nil {
				return err
			}
			if err := second(c.Group(open).Join(ctx)); err != nil {
				return err
			}
			done, err := c.Group(open).Join(ctx) // idempotent, and free
			if err == nil && !strings.HasPrefix(done.Message, "Already a member") {
				err = fmt.Errorf("joining twice says %q", done.Message)
			}
			return err
		}, nil, false},
		{"revokeGroupMember", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			if _, err := s.alice.Group(s.group).Add(ctx, s.world.Bob.ID); err != nil {
				return err
			}
			return undone(ctx, s, second(c.Group(s.group).Revoke(ctx, s.world.Bob.ID)))
		}, member, false},
		{"authStatus", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group).AuthStatus(ctx))
		}, nil, false},
		{"isAuthorized", false, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group).IsAuthorized(ctx, ""))
		}, nil, false},
		{"getGroupOwner", false, func(ctx context.Context, c *sdk.Client, s *suite) error { return second(c.Group(s.group).Owner(ctx)) }, nil, false},
		{"getGroupChecksum", false, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group).Checksum(ctx))
		}, nil, false},
		{"getOwnedGroups", true, func(ctx context.Context, c *sdk.Client, _ *suite) error { return second(c.OwnedGroups(ctx)) }, nil, false},
		{"getMemberGroups", true, func(ctx context.Context, c *sdk.Client, _ *suite) error { return second(c.MemberGroups(ctx)) }, nil, false},
		{"getGroupMembers", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group).Members(ctx))
		}, member, false},
	}
}

// moreOperations are not in the specification's table: the window of an open
// group, retention, and what only our dialect has.
func moreOperations(member []sdk.Kind) []operation {
	upload := func(ctx context.Context, s *suite) (sdk.Ref, error) {
		r, err := s.alice.Group(s.group).Put(ctx, "to be changed", bytes.NewReader([]byte("content")))
		return r.Ref, err
	}
	return []operation{
		{"setGroupRetention", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			days := int64(30)
			if err := second(c.Group(s.group).Settings().SetRetention(ctx, days)); err != nil {
				return err
			}
			return second(c.Group(s.group).Settings().ClearRetention(ctx))
		}, member, false},
		{"openGroup", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group+"-opened").OpenJoin(ctx, time.Now().Add(time.Hour)))
		}, member, false},
		{"closeGroup", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group + "-opened").CloseJoin(ctx))
		}, member, false},
		{"delete", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			ref, err := upload(ctx, s)
			if err != nil {
				return err
			}
			return second(c.Group(s.group).Delete(ctx, ref))
		}, member, true},
		{"rename", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			ref, err := upload(ctx, s)
			if err != nil {
				return err
			}
			return second(c.Group(s.group).Rename(ctx, ref, "changed"))
		}, member, true},
		{"setAttributes", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			ref, err := upload(ctx, s)
			if err != nil {
				return err
			}
			return second(c.Group(s.group).SetAttributes(ctx, ref, sdk.Attributes{Executable: true}))
		}, member, true},
		{"renameFolder", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			r, err := s.alice.Group(s.group).Put(ctx, "folder/f", bytes.NewReader([]byte("content")))
			if err != nil {
				return err
			}
			return second(c.Group(s.group).RenameFolder(ctx, "folder", "folder "+strconv.FormatInt(int64(r.Seq), 10), r.Seq))
		}, member, true},
		{"makeFolder", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group).MakeFolder(ctx, "made"))
		}, member, true},
		{"removeFolder", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			if _, err := s.alice.Group(s.group).MakeFolder(ctx, "removed"); err != nil {
				return err
			}
			return second(c.Group(s.group).RemoveFolder(ctx, "removed"))
		}, member, true},
		{"remove", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			if _, err := upload(ctx, s); err != nil {
				return err
			}
			if err := second(c.Group(s.group).Remove(ctx, "to be changed")); err != nil {
				return err
			}
			return second(c.Group(s.group).Restore(ctx, "to be changed"))
		}, member, true},
		{"trashSettings", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group).Settings().Trash(ctx))
		}, member, true},
		{"setTrash", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group).Settings().SetTrash(ctx, 30, ""))
		}, member, true},
		{"versionSettings", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group).Settings().Versions(ctx))
		}, member, true},
		{"setVersions", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group).Settings().SetVersions(ctx, wire.Keep{}))
		}, member, true},
		{"tryVersions", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group).Settings().TryVersions(ctx, wire.Keep{Last: 3}, ""))
		}, member, true},
		{"settings", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group).Settings().Get(ctx))
		}, member, true},
		{"setSettings", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group).Settings().Set(ctx, wire.GroupSettings{Format: 2}))
		}, member, true},
		{"leave", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			if c.Account() != s.world.Alice.ID {
				return second(c.Group(s.group).Leave(ctx))
			}
			err := second(c.Group(s.group).Leave(ctx))
			if sdk.KindOf(err) == sdk.ErrConflict {
				return nil // the owner cannot leave
			}
			return err
		}, member, true},
		{"offer", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group).Offer(ctx, ""))
		}, member, true},
		{"accept", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			err := second(c.Group(s.group).Accept(ctx))
			if sdk.KindOf(err) == sdk.ErrConflict {
				return nil // the owner has it already
			}
			return err
		}, member, true},
		{"deleteGroup", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			ends := s.group + "-ends"
			if c.Account() == s.world.Alice.ID {
				if err := second(c.Group(ends).Register(ctx)); err != nil {
					return err
				}
			}
			return second(c.Group(ends).DeleteGroup(ctx)) // at once, or it waits
		}, member, true},
		{"watch", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			ctx, cancel := context.WithCancel(ctx)
			events, err := c.Watch(ctx, 0)
			cancel()
			if err != nil {
				return err
			}
			for range events { // ends with an error
			}
			return nil
		}, nil, true},
		{"storage", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group).Storage(ctx))
		}, member, true},
		{"ledgerRows", true, func(ctx context.Context, c *sdk.Client, s *suite) error {
			return second(c.Group(s.group).Records(ctx))
		}, member, true},
		{"trust", false, func(ctx context.Context, c *sdk.Client, _ *suite) error { return second(c.Trust(ctx)) }, nil, false},
		{"capabilities", false, func(ctx context.Context, c *sdk.Client, _ *suite) error { return second(c.Capabilities(ctx)) }, nil, false},
		{"health", false, func(ctx context.Context, c *sdk.Client, _ *suite) error { return c.Health(ctx) }, nil, false},
	}
}

// second keeps the error of a call that also returns something.
func second[T any](_ T, err error) error { return err }

// undone takes bob out of the group again, whatever became of an attempt.
func undone(ctx context.Context, s *suite, err error) error {
	_, _ = s.alice.Group(s.group).Revoke(ctx, s.world.Bob.ID) // he may be out already
	return err
}
