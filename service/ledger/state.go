package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/store"
)

// State holds the rows that follow from the records so far, for every table that is
// derived from the ledger. The zero value is the state of an empty ledger. It holds some
// 500 bytes for each file.
type State struct {
	accounts map[string]*accountState
	groups   map[string]*groupState
	members  map[memberKey]*memberState
	files    map[string]*fileState
	pending  map[string]pendingState // deletions that wait, by reference
	trash    map[string]*fileState   // of the files, those in the trash
}

type pendingState struct {
	group, account string
	due            int64
}

type accountState struct {
	balance  wire.Amount
	disabled bool
	// generations of the key: of an account made with a key, and of one made for an
	// identity. The record of its making does not say which it is.
	generations [2]int64
}

// A pointer is nil where the database has NULL; a field named known… is false where old
// records lack the fact.
type groupState struct {
	owner              string
	joinable           bool // only a window makes it so
	expires, maxUses   *int64
	knowsMaxUses       bool
	uses, keyVersion   int64
	pending, pendingNS *int64
	retention          *int64
	joinRole           string
	trashDays          int64
	trashWho           string
}

type memberKey struct{ group, account string }

type memberState struct {
	since int64
	role  string
}

type fileState struct {
	group, txID, uploader, hash, name, contentType string
	seq, changed, timeNS                           int64
	size                                           *int64
	isOld, knowsName                               bool
	deleted                                        *chain.Row
	trash                                          *trashState // nil = it is not in the trash
}

type trashState struct {
	since int64
	by    string
	until *int64
}

// Apply applies a record. [State.Compare] finds a record that contradicts earlier ones,
// because no row fits it.
func (s *State) Apply(r *chain.Row) {
	if s.accounts == nil {
		*s = State{map[string]*accountState{}, map[string]*groupState{}, map[memberKey]*memberState{}, map[string]*fileState{}, map[string]pendingState{}, map[string]*fileState{}}
	}
	s.applyToAccounts(r)
	s.applyToGroup(r)
	s.applyToFile(r)
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
	case chain.KindRotateKey:
		a.generations[0]++
		a.generations[1]++
	case chain.KindDisable, chain.KindEnable:
		a.disabled = r.Kind == chain.KindDisable
		for i, g := range a.generations {
			if g > 0 {
				a.generations[i]++
			}
		}
	}
}

func (a *accountState) add(amount string) {
	if more, err := wire.ParseAmount(amount); err == nil {
		a.balance, _ = a.balance.Add(more)
	}
}

func (s *State) applyToGroup(r *chain.Row) {
	if r.Kind == chain.KindRegister {
		s.groups[r.Group] = &groupState{owner: r.Account, knowsMaxUses: true, keyVersion: 1, joinRole: string(wire.RoleWriter),
			trashDays: wire.DefaultTrashDays, trashWho: wire.TrashUploader}
		s.members[memberKey{r.Group, r.Account}] = &memberState{r.Seq, string(wire.RoleWriter)}
	}
	g := s.groups[r.Group]
	if g == nil {
		return
	}
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
			s.holdTrash(r.Group, member)
		}
	case chain.KindRevoke:
		delete(s.members, memberKey{r.Group, r.Detail})
		g.keyVersion++
		s.holdTrash(r.Group, r.Detail)
	case chain.KindOpenJoin:
		until, role, said := strings.Cut(r.Detail, " ")
		if !said {
			role = string(wire.RoleWriter)
		}
		g.joinable, g.joinRole, g.uses = true, role, 0
		g.expires = number(until)
		g.maxUses, g.knowsMaxUses = number(r.Tag(chain.TagMaxUses)), !r.IsOld()
	case chain.KindCloseJoin:
		g.expires = nil
	case chain.KindRetention:
		g.retention, g.pending, g.pendingNS = number(r.Detail), nil, nil
	case chain.KindPending:
		if days, due, ok := strings.Cut(strings.TrimPrefix(r.Detail, "retention "), " "); ok {
			g.pending, g.pendingNS = number(days), number(due)
		}
	case chain.KindTrash:
		days, who, _ := strings.Cut(r.Detail, " ")
		if n := number(days); n != nil {
			g.trashDays = *n
		}
		g.trashWho = who
	case chain.KindKeep:
		g.pending, g.pendingNS = nil, nil
		maps.DeleteFunc(s.pending, func(_ string, p pendingState) bool { return p.group == r.Group })
	}
}

// holdTrash keeps the files that a member removed until the owner of the group decides.
func (s *State) holdTrash(group, member string) {
	for _, f := range s.trash {
		if f.group == group && f.trash.by == member {
			f.trash.until = nil
		}
	}
}

// number reads an integer; nil is none.
func number(text string) *int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

func (s *State) applyToFile(r *chain.Row) {
	if r.Kind == chain.KindRecord {
		s.files[r.Ref] = &fileState{group: r.Group, txID: r.Tx, uploader: r.Account, hash: r.FileHash, name: r.Detail, contentType: r.Tag(chain.TagType),
			seq: r.Seq, changed: r.Seq, timeNS: r.TimeNS, size: number(r.Tag(chain.TagSize)), isOld: r.IsOld(), knowsName: !r.IsOld() || r.Detail != ""}
	}
	f := s.files[r.Ref]
	if f == nil {
		return
	}
	switch r.Kind {
	case chain.KindRename:
		f.name, f.knowsName, f.changed = r.Detail, true, r.Seq
	case chain.KindTombstone:
		f.deleted, f.trash, f.changed = r, nil, r.Seq
		delete(s.trash, r.Ref)
	case chain.KindRemove:
		f.trash, f.changed = &trashState{r.TimeNS, r.Account, number(r.Detail)}, r.Seq
		s.trash[r.Ref] = f
	case chain.KindRestore:
		f.trash, f.changed = nil, r.Seq
		delete(s.trash, r.Ref)
	case chain.KindPending:
		if due := number(r.Detail); due != nil {
			s.pending[r.Ref] = pendingState{r.Group, r.Account, *due}
		}
	}
}

// Compare compares every row of every table that is derived from the ledger with
// the state, which is that of the whole ledger. [ErrBroken] names table, row and
// column of the first that differs, and both values.
func (s *State) Compare(ctx context.Context, tx *store.Tx) error {
	if s.accounts == nil {
		s.Apply(&chain.Row{})
	}
	for _, compare := range []func(context.Context, *store.Tx) error{s.compareAccounts, s.compareGroups, s.compareMembers, s.compareFiles, s.comparePending} {
		if err := compare(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// fact is a column with its value in the database and the value that follows from the
// ledger.
type fact struct {
	column    string
	has, want any
}

// shown is a value for a message: text is quoted, because clients chose it.
func shown(value any) any {
	if text, ok := value.(string); ok {
		return strconv.Quote(text)
	}
	return value
}

// nothing is a column without a value.
type nothing struct{}

func (nothing) String() string { return "NULL" }

// null is how a number is compared that may be NULL.
func null(n sql.NullInt64) any {
	if !n.Valid {
		return nothing{}
	}
	return n.Int64
}

func pointed(n *int64) any {
	if n == nil {
		return nothing{}
	}
	return *n
}

// differ names the first fact that is not as the ledger says.
func differ(table, key string, facts []fact) error {
	for _, f := range facts {
		if f.has != f.want {
			return fmt.Errorf("table %s, %q: %w: %s is %v, and the ledger says %v", table, key, ErrBroken, f.column, shown(f.has), shown(f.want))
		}
	}
	return nil
}

// eachRow passes rows to each, which scans one and returns its key and facts, or known =
// false when the ledger has no such row. missing names a row that was expected and is
// not there.
func eachRow(ctx context.Context, tx *store.Tx, table string, query store.Query, expected int, each func(rows *sql.Rows) (key string, known bool, facts []fact, err error),
	missing func() string) error {
	n := 0
	for rows, err := range tx.Rows(ctx, query) {
		if err != nil {
			return fmt.Errorf("read table %s: %w", table, err)
		}
		key, known, facts, err := each(rows)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("table %s, %q: %w: a field has the wrong type", table, key, ErrBroken)
		case !known:
			return fmt.Errorf("table %s, %q: %w: the ledger knows nothing of it", table, key, ErrBroken)
		}
		if err := differ(table, key, facts); err != nil {
			return err
		}
		n++
	}
	if n < expected {
		return fmt.Errorf("table %s, %q: %w: it is missing", table, missing(), ErrBroken)
	}
	return nil
}

// unseen returns the first key that was not seen.
func unseen[K comparable, V any](all map[K]V, seen map[K]bool, text func(K) string) string {
	first := ""
	for key := range all {
		if t := text(key); !seen[key] && (first == "" || t < first) {
			first = t
		}
	}
	return first
}

func same(text string) string { return text }

func (s *State) compareAccounts(ctx context.Context, tx *store.Tx) error {
	seen := make(map[string]bool)
	each := func(rows *sql.Rows) (id string, known bool, facts []fact, err error) {
		var balance string
		var generation int64
		var disabled bool
		err = rows.Scan(&id, &balance, &generation, &disabled)
		a := s.accounts[id]
		if err != nil || a == nil {
			return id, false, nil, err
		}
		seen[id] = true
		want := a.generations[0]
		if generation == a.generations[1] {
			want = generation
		}
		return id, true, []fact{{"balance", balance, a.balance.String()}, {"key_generation", generation, want}, {"disabled_ns IS NOT NULL", disabled, a.disabled}}, nil
	}
	return eachRow(ctx, tx, "accounts", "SELECT id, balance, key_generation, disabled_ns IS NOT NULL FROM accounts ORDER BY id", len(s.accounts), each,
		func() string { return unseen(s.accounts, seen, same) })
}

func (s *State) compareGroups(ctx context.Context, tx *store.Tx) error {
	seen := make(map[string]bool)
	each := func(rows *sql.Rows) (id string, known bool, facts []fact, err error) {
		var owner, joinRole, trashWho string
		var trashDays int64
		var joinable bool
		var expires, maxUses, retention, pending, pendingNS sql.NullInt64
		var uses, keyVersion int64
		err = rows.Scan(&id, &owner, &joinable, &expires, &maxUses, &uses, &retention, &keyVersion, &joinRole, &pending, &pendingNS, &trashDays, &trashWho)
		g := s.groups[id]
		if err != nil || g == nil {
			return id, false, nil, err
		}
		seen[id] = true
		facts = []fact{{"owner", owner, g.owner}, {"joinable", joinable, g.joinable}, {"join_expires", null(expires), pointed(g.expires)}, {"join_uses", uses, g.uses},
			{"retention_days", null(retention), pointed(g.retention)}, {"key_version", keyVersion, g.keyVersion},
			{"pending_retention", null(pending), pointed(g.pending)}, {"pending_retention_ns", null(pendingNS), pointed(g.pendingNS)}, {"join_role", joinRole, g.joinRole},
			{"trash_days", trashDays, g.trashDays}, {"trash_who", trashWho, g.trashWho}}
		if g.knowsMaxUses {
			facts = append(facts, fact{"join_max_uses", null(maxUses), pointed(g.maxUses)})
		}
		return id, true, facts, nil
	}
	return eachRow(ctx, tx, "groups", `SELECT id, owner, joinable, join_expires, join_max_uses, join_uses, retention_days, key_version, join_role,
		pending_retention, pending_retention_ns, trash_days, trash_who FROM groups ORDER BY id`,
		len(s.groups), each, func() string { return unseen(s.groups, seen, same) })
}

func (s *State) compareMembers(ctx context.Context, tx *store.Tx) error {
	seen := make(map[memberKey]bool)
	text := func(k memberKey) string { return k.group + "/" + k.account }
	each := func(rows *sql.Rows) (key string, known bool, facts []fact, err error) {
		var k memberKey
		var has memberState
		err = rows.Scan(&k.group, &k.account, &has.since, &has.role)
		m := s.members[k]
		if err != nil || m == nil {
			return text(k), false, nil, err
		}
		seen[k] = true
		return text(k), true, []fact{{"since", has.since, m.since}, {"role", has.role, m.role}}, nil
	}
	return eachRow(ctx, tx, "members", "SELECT group_id, account, since, role FROM members ORDER BY group_id, account", len(s.members), each,
		func() string { return unseen(s.members, seen, text) })
}

func (s *State) compareFiles(ctx context.Context, tx *store.Tx) error {
	seen := make(map[string]bool)
	each := func(rows *sql.Rows) (ref string, known bool, facts []fact, err error) {
		var has fileState
		var size, deletedNS, trashNS, trashUntil sql.NullInt64
		var by, why, trashBy sql.NullString
		var isLegacy, hasKey bool
		err = rows.Scan(&ref, &has.group, &has.seq, &has.changed, &has.txID, &has.uploader, &has.hash, &has.timeNS, &has.name, &size, &has.contentType,
			&deletedNS, &by, &why, &trashNS, &trashBy, &trashUntil, &isLegacy, &hasKey)
		f := s.files[ref]
		if err != nil || f == nil {
			return ref, false, nil, err
		}
		seen[ref] = true
		deleted := chain.Row{}
		if f.deleted != nil {
			deleted = *f.deleted
		}
		facts = []fact{{"group_id", has.group, f.group}, {"seq", has.seq, f.seq}, {"changed_seq", has.changed, f.changed}, {"tx_id", has.txID, f.txID},
			{"uploader", has.uploader, f.uploader}, {"file_hash", has.hash, f.hash}, {"time_ns", has.timeNS, f.timeNS},
			{"deleted_ns IS NOT NULL", deletedNS.Valid, f.deleted != nil}, {"deleted_ns", deletedNS.Int64, deleted.TimeNS}, {"deleted_by", by.String, deleted.Account}, {"deleted_why", why.String, deleted.Detail},
			{"key_id IS NOT NULL", hasKey, f.deleted == nil}}
		trash := trashState{}
		if f.trash != nil {
			trash = *f.trash
		}
		facts = append(facts, fact{"trash_ns IS NOT NULL", trashNS.Valid, f.trash != nil}, fact{"trash_ns", trashNS.Int64, trash.since},
			fact{"trash_by", trashBy.String, trash.by}, fact{"trash_until_ns", null(trashUntil), pointed(trash.until)})
		if f.knowsName {
			facts = append(facts, fact{"filename", has.name, f.name})
		}
		if !f.isOld {
			facts = append(facts, fact{"content_type", has.contentType, f.contentType})
		}
		if !f.isOld && (f.size != nil || !isLegacy) { // the bytes of a legacy file may come later
			facts = append(facts, fact{"original_size", null(size), pointed(f.size)})
		}
		return ref, true, facts, nil
	}
	return eachRow(ctx, tx, "files", `SELECT ref, group_id, seq, changed_seq, tx_id, uploader, file_hash, time_ns, filename, original_size, content_type,
		deleted_ns, deleted_by, deleted_why, trash_ns, trash_by, trash_until_ns, backend = 'Ipfs', key_id IS NOT NULL FROM files ORDER BY seq, ref`, len(s.files), each,
		func() string { return unseen(s.files, seen, same) })
}

// comparePending compares the pending deletions: the ledger must have a request for
// each. A deletion that was cancelled has no row.
func (s *State) comparePending(ctx context.Context, tx *store.Tx) error {
	each := func(rows *sql.Rows) (ref string, known bool, facts []fact, err error) {
		var has pendingState
		err = rows.Scan(&ref, &has.group, &has.account, &has.due)
		p, known := s.pending[ref]
		return ref, known, []fact{{"group_id", has.group, p.group}, {"account", has.account, p.account}, {"due_ns", has.due, p.due}}, err
	}
	return eachRow(ctx, tx, "pending_deletions", "SELECT ref, group_id, account, due_ns FROM pending_deletions ORDER BY ref", 0, each, nil)
}
