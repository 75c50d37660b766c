package ledger

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// State holds the rows that follow from the records so far, for every table that is
// derived from the ledger. The zero value is the state of an empty ledger. It holds some
// 500 bytes for each file.
type State struct {
	Part     Part // that it is limited to
	accounts map[string]*accountState
	groups   map[string]*groupState
	members  map[memberKey]*memberState
	files    map[string]*fileState
	folders  map[string]*folderState // those recorded, by reference
	pending  map[string]pendingState // deletions that wait, by reference
	invites  map[string]inviteState  // that were neither used nor revoked, by id
	// names are of the living files and the folders, by group; nil = no folder was renamed so far.
	names map[string]*chain.Folders[string]
	// trash has of the files those in the trash whose time ends, by the account that removed them, then by reference.
	trash map[memberKey]map[string]*fileState
	// claim is the fault of the first record of a retrieval that nobody may have made; nil = there is none.
	claim error
}

type pendingState struct {
	group, account string
	due            int64
}

type inviteState struct {
	account, balance string
	group, role      string // of one to a group
	expires          int64
}

type accountState struct {
	balance           wire.Amount
	disabled, deleted bool
	// generations of the key: of an account made with a key, and of one made for an
	// identity. The record of its making does not say which it is.
	generations [2]int64
}

// A pointer is nil where the database has NULL.
type groupState struct {
	owner              string
	joinable           bool // only a window makes it so
	expires, maxUses   *int64
	uses, keyVersion   int64
	pending, pendingNS *int64
	retention          *int64
	joinRole           string
	trashDays, format  int64
	appends, keys      string
	trashWho           string
	versions           wire.Keep
	nextVersions       string // the setting that waits, "" = none
	nextVersionsNS     *int64
	offerTo            string // "" = none
	offerFrom          *int64
	offerUntil         *int64
	end, ended         *int64
}

type memberKey struct{ group, account string }

// String is the key in messages.
func (k memberKey) String() string { return k.group + "/" + k.account }

type memberState struct {
	since int64
	role  string
}

type fileState struct {
	group, txID, uploader, hash, name, contentType, attributes string
	content                                                    string // of format version 2, else ""
	seq, changed, named, timeNS                                int64
	versioned                                                  bool
	deleted                                                    *chain.Row
	trash                                                      *trashState // nil = it is not in the trash
}

type folderState struct {
	group, account, path string // the path has a slash at its end
	seq, timeNS          int64
}

type trashState struct {
	since int64
	by    string
	until *int64
}

// Apply applies a record. [State.Compare] finds a record that contradicts earlier ones,
// because no row fits it, and a retrieval that nobody may have made.
func (s *State) Apply(r *chain.Row) {
	if s.accounts == nil {
		*s = State{Part: s.Part, accounts: map[string]*accountState{}, groups: map[string]*groupState{},
			members: map[memberKey]*memberState{}, files: map[string]*fileState{}, folders: map[string]*folderState{},
			pending: map[string]pendingState{}, invites: map[string]inviteState{},
			trash: map[memberKey]map[string]*fileState{}}
	}
	if r.Kind == chain.KindClaim && s.claim == nil {
		s.claim = s.checkClaim(r)
	}
	s.applyToAccounts(r)
	s.applyToInvites(r)
	s.applyToGroup(r)
	s.applyToFolder(r)
	s.applyToFile(r)
}

// checkClaim checks that who retrieved a file was a member, and that the group had the file.
func (s *State) checkClaim(r *chain.Row) error {
	fault := ""
	f := s.files[r.Ref]
	switch a := s.accounts[r.Account]; {
	case a == nil || a.disabled:
		fault = "it is disabled, or there is no such account"
	case s.members[memberKey{r.Group, r.Account}] == nil:
		fault = "it is no member of the group"
	case s.Part.has(r.Ref) && (f == nil || f.group != r.Group || f.deleted != nil):
		fault = "the group has no such file"
	default:
		return nil
	}
	return fmt.Errorf("record %d: %w: account %q was given the key of file %q of group %q, and %s", r.Seq, ErrBroken,
		r.Account, r.Ref, r.Group, fault)
}

func (s *State) applyToAccounts(r *chain.Row) {
	if r.Kind == chain.KindCreateAccount {
		s.accounts[r.Account] = &accountState{generations: [2]int64{1, 0}}
	}
	a := s.accounts[r.Account]
	if a == nil { // the service itself
		return
	}
	if fee, err := wire.ParseAmount(r.Fee); err == nil {
		a.balance, _ = a.balance.Sub(fee)
	}
	switch r.Kind {
	case chain.KindCreateAccount, chain.KindFund:
		a.add(r.Detail)
	case chain.KindTransfer:
		to, amount, _ := strings.Cut(r.Detail, " ")
		if paid, err := wire.ParseAmount(amount); err == nil {
			a.balance, _ = a.balance.Sub(paid)
		}
		if receiver := s.accounts[to]; receiver != nil {
			receiver.add(amount)
		}
	case chain.KindRotateKey, chain.KindSealKey:
		a.generations[0]++
		a.generations[1]++
	case chain.KindDeleteAccount:
		a.deleted, a.balance = true, wire.Amount{}
	case chain.KindDisable, chain.KindEnable:
		a.disabled = r.Kind == chain.KindDisable
		for i, g := range a.generations {
			if g > 0 {
				a.generations[i]++
			}
		}
		for k := range s.trash {
			if k.account == r.Account {
				s.holdTrash(k)
			}
		}
		for _, g := range s.groups {
			if g.owner == r.Account {
				g.forgetPending()
			}
		}
	}
}

func (s *State) applyToInvites(r *chain.Row) {
	switch r.Kind {
	case chain.KindInvite:
		words := strings.Fields(r.Detail)
		switch {
		case r.Group == "" && len(words) == 4:
			ends, _ := strconv.ParseInt(words[3], 10, 64)
			s.invites[words[0]] = inviteState{account: words[1], balance: words[2], expires: ends}
		case r.Group != "" && len(words) == 3:
			ends, _ := strconv.ParseInt(words[2], 10, 64)
			s.invites[words[0]] = inviteState{group: r.Group, role: words[1], expires: ends}
		}
	case chain.KindEndInvite:
		delete(s.invites, r.Detail)
	case chain.KindCreateAccount, chain.KindAdd:
		delete(s.invites, r.Tag(chain.TagInvite))
	}
}

func (a *accountState) add(amount string) {
	if more, err := wire.ParseAmount(amount); err == nil {
		a.balance, _ = a.balance.Add(more)
	}
}

func (s *State) applyToGroup(r *chain.Row) {
	if r.Kind == chain.KindRegister {
		s.groups[r.Group] = &groupState{owner: r.Account, keyVersion: 1, joinRole: string(wire.RoleWriter),
			trashDays: wire.DefaultTrashDays, trashWho: wire.TrashUploader, format: format.VersionBlocks,
			appends: wire.AppendsApart, keys: wire.KeysAny}
		s.members[memberKey{r.Group, r.Account}] = &memberState{r.Seq, string(wire.RoleWriter)}
	}
	if g := s.groups[r.Group]; g != nil {
		s.applyToMembers(g, r)
		g.applySetting(r)
	}
}

// applyToMembers applies a record of members, of the owner, or of what waits in the group.
func (s *State) applyToMembers(g *groupState, r *chain.Row) {
	switch r.Kind {
	case chain.KindAdd:
		s.members[memberKey{r.Group, r.Detail}] = &memberState{r.Seq, string(wire.RoleWriter)}
	case chain.KindJoin:
		s.members[memberKey{r.Group, r.Account}] = &memberState{r.Seq, string(wire.RoleWriter)}
		g.uses++
	case chain.KindRole:
		member, role, _ := strings.Cut(r.Detail, " ")
		if m := s.members[memberKey{r.Group, member}]; m != nil {
			m.role = role
		}
		if role == string(wire.RoleReader) {
			s.holdTrash(memberKey{r.Group, member})
		}
	case chain.KindRevoke:
		delete(s.members, memberKey{r.Group, r.Detail})
		g.keyVersion++
		s.holdTrash(memberKey{r.Group, r.Detail})
		if g.offerTo == r.Detail {
			g.offer("")
		}
	case chain.KindOffer:
		g.offer(r.Detail)
	case chain.KindAccept:
		s.holdTrash(memberKey{r.Group, g.owner})
		for _, account := range []string{g.owner, r.Account} {
			if m := s.members[memberKey{r.Group, account}]; m != nil {
				m.role = string(wire.RoleWriter)
			}
		}
		g.owner = r.Account
		g.forgetPending()
		s.forgetDeletions(r.Group)
	case chain.KindDeleteGroup:
		g.ended = &r.TimeNS
		g.forgetPending()
		s.forgetDeletions(r.Group)
	case chain.KindKeep:
		g.forgetDestruction()
		g.versions = wire.Keep{}
		s.forgetDeletions(r.Group)
	}
}

// applySetting applies a record of a setting, or of a setting or an end that waits.
func (g *groupState) applySetting(r *chain.Row) {
	switch r.Kind {
	case chain.KindOpenJoin:
		until, role, said := strings.Cut(r.Detail, " ")
		if !said {
			role = string(wire.RoleWriter)
		}
		g.joinable, g.joinRole, g.uses = true, role, 0
		g.expires = number(until)
		g.maxUses = number(r.Tag(chain.TagMaxUses))
	case chain.KindCloseJoin:
		g.expires = nil
	case chain.KindRetention:
		g.retention, g.pending, g.pendingNS = number(r.Detail), nil, nil
	case chain.KindVersions:
		g.versions, _ = wire.ParseKeep(r.Detail) // else all, which destroys nothing
		g.nextVersions, g.nextVersionsNS = "", nil
	case chain.KindPending:
		switch words := strings.Fields(r.Detail); {
		case len(words) == 3 && words[0] == "retention":
			g.pending, g.pendingNS = number(words[1]), number(words[2])
		case len(words) == 3 && words[0] == "versions":
			g.nextVersions, g.nextVersionsNS = words[1], number(words[2])
		case len(words) == 2 && words[0] == "group":
			g.end = number(words[1])
		}
	case chain.KindTrash:
		days, who, _ := strings.Cut(r.Detail, " ")
		if n := number(days); n != nil {
			g.trashDays = *n
		}
		g.trashWho = who
	case chain.KindFormat:
		if n := number(r.Detail); n != nil {
			g.format = *n
		}
	case chain.KindKeys:
		g.keys = r.Detail
	case chain.KindAppends:
		g.appends = r.Detail
	}
}

// forgetDestruction drops the settings and the end that wait.
func (g *groupState) forgetDestruction() {
	g.pending, g.pendingNS, g.nextVersions, g.nextVersionsNS, g.end = nil, nil, "", nil, nil
}

// forgetPending drops all that waits, but for deletions of files.
func (g *groupState) forgetPending() {
	g.forgetDestruction()
	g.offer("")
}

// forgetDeletions drops the deletions that wait in a group.
func (s *State) forgetDeletions(group string) {
	maps.DeleteFunc(s.pending, func(_ string, p pendingState) bool { return p.group == group })
}

// offer notes the offer that a record has, none for "".
func (g *groupState) offer(detail string) {
	g.offerTo, g.offerFrom, g.offerUntil = "", nil, nil
	if words := strings.Fields(detail); len(words) == 3 {
		g.offerTo, g.offerFrom, g.offerUntil = words[0], number(words[1]), number(words[2])
	}
}

// holdTrash keeps the files that a member removed until the owner of the group decides.
// A file is held once, so that an owner who changes roles all day does not make the
// replay slow.
func (s *State) holdTrash(k memberKey) {
	for _, f := range s.trash[k] {
		f.trash.until = nil
	}
	delete(s.trash, k)
}

// leaveTrash takes a file out of the trash, if it is there.
func (s *State) leaveTrash(ref string, f *fileState) {
	if f.trash != nil {
		delete(s.trash[memberKey{f.group, f.trash.by}], ref)
	}
	f.trash = nil
}

// number reads an integer; nil is none.
func number(text string) *int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

func (s *State) applyToFolder(r *chain.Row) {
	switch r.Kind {
	case chain.KindRenameFolder:
		s.renameFolder(r)
	case chain.KindMakeFolder:
		if !s.Part.has(r.Ref) {
			return
		}
		s.folders[r.Ref] = &folderState{r.Group, r.Account, chain.FolderName(r.Detail), r.Seq, r.TimeNS}
		s.enter(r.Group, r.Ref, chain.FolderName(r.Detail))
	case chain.KindRemoveFolder:
		if names := s.names[r.Group]; names != nil {
			names.Drop(r.Ref, chain.FolderName(r.Detail))
		}
		delete(s.folders, r.Ref)
	}
}

func (s *State) applyToFile(r *chain.Row) {
	if r.Kind == chain.KindRecord && s.Part.has(r.Ref) {
		s.files[r.Ref] = &fileState{group: r.Group, txID: r.Tx, uploader: r.Account, hash: r.FileHash, name: r.Detail,
			contentType: r.Tag(chain.TagType), attributes: r.Tag(chain.TagAttributes), content: r.Tag(chain.TagContent),
			seq: r.Seq, changed: r.Seq, named: r.Seq, timeNS: r.TimeNS,
			versioned: r.Tag(chain.TagVersioned) == chain.Versioned}
	}
	f := s.files[r.Ref]
	if f == nil {
		return
	}
	s.leaveFolder(r.Ref, f)
	defer func() { s.enterFolder(r.Ref, f) }()
	switch r.Kind {
	case chain.KindRename:
		f.name, f.changed, f.named = r.Detail, r.Seq, r.Seq
	case chain.KindAttributes:
		f.attributes, f.changed = r.Tag(chain.TagAttributes), r.Seq
	case chain.KindTombstone:
		s.leaveTrash(r.Ref, f)
		f.deleted, f.changed = r, r.Seq
	case chain.KindRemove:
		s.leaveTrash(r.Ref, f)
		f.trash, f.changed, f.named = &trashState{r.TimeNS, r.Account, number(r.Detail)}, r.Seq, r.Seq
		k := memberKey{f.group, r.Account}
		if s.trash[k] == nil {
			s.trash[k] = map[string]*fileState{}
		}
		s.trash[k][r.Ref] = f
	case chain.KindRestore:
		s.leaveTrash(r.Ref, f)
		f.changed, f.named = r.Seq, r.Seq
	case chain.KindPending:
		if due := number(r.Detail); due != nil {
			s.pending[r.Ref] = pendingState{r.Group, r.Account, *due}
		}
	}
}

// renameFolder applies a record of a renamed folder.
func (s *State) renameFolder(r *chain.Row) {
	if s.names == nil {
		s.names = map[string]*chain.Folders[string]{}
		for ref, f := range s.files {
			s.enterFolder(ref, f)
		}
		for ref, d := range s.folders {
			s.enter(d.group, ref, d.path)
		}
	}
	before, after, ok := chain.FolderOf(&r.Record)
	names := s.names[r.Group]
	if !ok || names == nil {
		return
	}
	names.Rename(before, after, math.MaxInt64, func(ref, name string) {
		if d := s.folders[ref]; d != nil {
			d.path = name
			return
		}
		f := s.files[ref]
		f.name, f.changed, f.named = name, r.Seq, r.Seq
	})
}

// enterFolder adds a file to the names of its group that a renamed folder changes, if it
// is one of them.
func (s *State) enterFolder(ref string, f *fileState) {
	if f.deleted == nil && f.trash == nil {
		s.enter(f.group, ref, f.name)
	}
}

// enter adds a file or folder to the names of a group.
func (s *State) enter(group, ref, name string) {
	if s.names == nil {
		return
	}
	if s.names[group] == nil {
		s.names[group] = &chain.Folders[string]{}
	}
	s.names[group].Put(ref, name)
}

func (s *State) leaveFolder(ref string, f *fileState) {
	if names := s.names[f.group]; names != nil {
		names.Drop(ref, f.name)
	}
}
