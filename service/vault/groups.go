package vault

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/vaultwire"
)

const (
	// maxGroups and maxGroupsBytes bound the groups that are followed and what all of them take, and maxOfGroup the
	// members of one. That is room for a quarter of a million members.
	maxGroups      = 4096
	maxGroupsBytes = 30 << 20
	maxOfGroup     = 1 << 14
	// nameCost is what a member or an invite takes beside its name, groupCost what a group takes, and beyondCost what
	// a record that the log lacks takes, in bytes.
	nameCost   = 96
	groupCost  = 512
	beyondCost = sha256.Size
	// maxNameBytes bounds the name of a group or an account.
	maxNameBytes = 1 << 10
	// maxMoved bounds the chains of which the newest place in the log is known without a proof, and maxTrees the
	// earlier trees by which others are proven: what moved since such a tree is known.
	maxMoved = 1 << 16
	maxTrees = 256
	// maxBeyond bounds the records of a group that the vault was given before the log has them.
	maxBeyond = 1 << 12
	// stateEvery is after how many records of a group there is another state.
	stateEvery = 512
	// maxStateBytes bounds a state: it fits into a frame. A group of more members is read anew.
	maxStateBytes = 512 << 10
)

// groups are those whose chains the vault follows, so that who is given a key is a member. It is safe for concurrent
// use.
type groups struct {
	mu    sync.Mutex // guards the rest
	trees []vaultwire.Tree
	moved *lru.Cache[chain.Hash, chain.Place] // newest places in the log, by the key of the chain
	known *lru.Cache[chain.Hash, *group]      // likewise
	taken int                                 // what all of known takes, in bytes
}

// group is the chain of a group, as far as it was followed.
type group struct {
	chain.Members
	name   string // of the chain
	seq    int64  // of the record at
	at     chain.Place
	end    chain.Place  // of the chain in the log
	beyond []chain.Hash // of the records up to at that the log lacks, the oldest first
	kept   int64        // number of the record of the newest state
	most   int          // members that Has had at once: a map keeps its size
	takes  int          // what it took when it was looked at last
}

// size gives back what it does not need any more, and returns what it takes, in bytes.
func (g *group) size() int {
	g.most = max(g.most, len(g.Has)) // of a state
	if g.most > 2*len(g.Has) {
		few := make(map[string]bool, len(g.Has))
		maps.Copy(few, g.Has)
		g.Has, g.most = few, len(few)
	}
	if cap(g.beyond) > 2*len(g.beyond) {
		g.beyond = slices.Clone(g.beyond)
	}
	n := groupCost + len(g.name) + beyondCost*cap(g.beyond) + nameCost*(g.most-len(g.Has))
	for name := range g.Has {
		n += nameCost + len(name)
	}
	for _, list := range [][]string{g.Invites, g.Over} {
		for _, id := range list {
			n += nameCost + len(id)
		}
	}
	return n
}

func newGroups() (*groups, error) {
	moved, err := lru.New[chain.Hash, chain.Place](maxMoved)
	if err != nil {
		return nil, err
	}
	known, err := lru.New[chain.Hash, *group](maxGroups + 1)
	return &groups{moved: moved, known: known}, err
}

// begins forgets what no tree of the log has shown.
func (gs *groups) begins(t vaultwire.Tree) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.trees = []vaultwire.Tree{t}
	gs.moved.Purge()
	gs.known.Purge()
	gs.taken = 0
}

// extends notes the next records of the log.
func (gs *groups) extends(t vaultwire.Tree, records []vaultwire.Placed) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.trees = append(gs.trees[max(0, len(gs.trees)-maxTrees+1):], t)
	for _, r := range records {
		gs.moved.Add(r.Chain, r.Place)
		g, ok := gs.known.Peek(r.Chain)
		if !ok {
			continue
		}
		g.end = r.Place
		if len(g.beyond) == 0 {
			continue
		}
		if g.beyond[0] != r.Hash { // what svcd said beyond the log is not what came
			gs.forget(r.Chain)
			continue
		}
		g.beyond = slices.Delete(g.beyond, 0, 1) // so that its capacity is what it takes
	}
}

func (gs *groups) forget(key chain.Hash) {
	if g, ok := gs.known.Peek(key); ok {
		gs.taken -= g.takes
		gs.known.Remove(key)
	}
}

// endOf returns where a chain ends in the log, by a part of a tree.
func (gs *groups) endOf(key chain.Hash, part []byte) (end chain.Place, err error) {
	if len(gs.trees) == 0 { // no log is followed
		return end, nil
	}
	if end, ok := gs.moved.Peek(key); ok { // Get would keep it longer than those that moved later
		return end, nil
	}
	tree, err := chain.ParseTreePart(part)
	if err != nil {
		return end, fmt.Errorf("%w: %w", vaultwire.ErrNotFollowing, err)
	}
	end = tree.End(key)
	root, ok := tree.Root()
	newest := gs.trees[len(gs.trees)-1].Records
	isRecent := func(t vaultwire.Tree) bool { return t.Chains == root && newest-t.Records <= maxMoved }
	if !ok || !slices.ContainsFunc(gs.trees, isRecent) {
		return end, fmt.Errorf("a chain in no recent tree of the log: %w", vaultwire.ErrNotFollowing)
	}
	return end, nil
}

// add takes the next record. One that nobody asked for, that its account may not make, that belongs to another chain,
// or is beyond the bounds, changes nothing: isRefused says so. The chain goes on, or else who takes a service over for
// a moment would end each group for ever. isVouched is false for a record that lets somebody in, and for which the
// vault did not vouch. Errors: [vaultwire.ErrNotFollowing].
func (g *group) add(r *chain.Record, isVouched, isLogFollowed bool) (isRefused bool, err error) {
	if r.Number <= g.at.Number {
		return false, nil // others gave it
	}
	place := chain.PlaceOf(r)
	switch {
	case r.Chain != g.name || r.Number != g.at.Number+1 || r.Prev != g.at.Hash,
		r.Number == g.end.Number && place != g.end, len(g.beyond) == maxBeyond:
		return false, fmt.Errorf("record %d of the chain %q: %w", r.Number, g.name, vaultwire.ErrNotFollowing)
	}
	isStray := chain.Of(r.Kind, r.Account, r.Group) != g.name
	isLong := len(r.Account) > maxNameBytes || namesMember(r.Kind) && len(r.Detail) > maxNameBytes
	isFull := len(g.Has) > maxOfGroup && (r.Kind == chain.KindAdd || r.Kind == chain.KindJoin)
	isRefused = isStray || isLong || isFull || !isVouched || g.Apply(r) != nil
	g.most = max(g.most, len(g.Has))
	if g.at, g.seq = place, r.Seq; isLogFollowed && r.Number > g.end.Number {
		g.beyond = append(g.beyond, place.Hash)
	}
	return isRefused, nil
}

// namesMember reports whether the detail of a record of a kind has the name of a member, or of an invite.
func namesMember(kind string) bool {
	return kind == chain.KindAdd || kind == chain.KindOffer || kind == chain.KindInvite
}

// Follow implements [vaultwire.Vault].
func (v *Vault) Follow(_ context.Context, q vaultwire.Follow) (a vaultwire.Followed, err error) {
	if len(q.Group) > maxNameBytes {
		return a, fmt.Errorf("a group whose name has %d bytes: %w", len(q.Group), vaultwire.ErrNotFollowing)
	}
	name := chain.OfGroup(q.Group)
	key := chain.Key(name)
	state, hasState := v.stateOf(name, q.State)
	gs := v.groups
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g, ok := gs.known.Get(key)
	if !ok {
		if q.State == nil && q.Chains == nil && len(q.Records) == 0 {
			return a, nil
		}
		end, err := gs.endOf(key, q.Chains)
		if err != nil {
			return a, err
		}
		g = &group{name: name, end: end}
		if s := state; hasState && (s.At.Number < end.Number || s.At == end || len(gs.trees) == 0) {
			g.Members, g.at, g.seq, g.kept = s.Members, s.At, s.Seq, s.At.Number
		}
	}
	for i := range q.Records {
		r := &q.Records[i]
		isRefused, err := g.add(r, !r.LetsIn() || v.isVouched(r), len(gs.trees) > 0)
		if isRefused {
			a.Refused = append(a.Refused, r.Number)
		}
		if err != nil {
			gs.forget(key)
			return a, err
		}
	}
	if before := g.takes; !ok || len(q.Records) > 0 {
		g.takes = g.size()
		gs.taken += g.takes - before
		gs.known.Add(key, g)
	}
	for gs.known.Len() > maxGroups || gs.taken > maxGroupsBytes && gs.known.Len() > 1 { // g was used last
		_, old, _ := gs.known.RemoveOldest()
		gs.taken -= old.takes
	}
	a.Known, a.Seq = true, g.seq
	if q.Keep && g.at.Number-g.kept >= stateEvery {
		a.State, err = v.sealState(groupState{g.name, g.at, g.seq, g.Members})
		g.kept = g.at.Number
	}
	return a, err
}

// check checks that the account of a session is a member of a group, and may have keys so. beside is the newest record
// that says so, where the log lacks it yet. Errors: [vaultwire.ErrNotFollowed], [vaultwire.ErrNoMember],
// [vaultwire.ErrSealedOnly]. Without a log that is followed it knows of no member.
func (gs *groups) check(name string, s session) (beside *vaultwire.Placed, err error) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	key := chain.Key(chain.OfGroup(name))
	g, ok := gs.known.Get(key)
	switch {
	case len(gs.trees) == 0: // whatever it were told of a group would be believed, and a salvaged ledger may have gaps
		return nil, nil
	case !ok || g.at.Number < g.end.Number:
		return nil, fmt.Errorf("group %q: %w", name, vaultwire.ErrNotFollowed)
	case !g.Has[s.Account]:
		return nil, fmt.Errorf("%q in group %q: %w", s.Account, name, vaultwire.ErrNoMember)
	case g.Sealed && s.sealed == nil:
		return nil, fmt.Errorf("a session in the clear in group %q: %w", name, vaultwire.ErrSealedOnly)
	case len(g.beyond) > 0:
		beside = &vaultwire.Placed{Chain: key, Place: g.at}
	}
	return beside, nil
}

// groupState is what the vault knows of a group, for later.
type groupState struct {
	Chain string
	At    chain.Place
	Seq   int64
	chain.Members
}

const stateDomain = "svc-group-state-2\n"

func stateMAC(k serviceKey, text []byte) []byte {
	mac := hmac.New(sha256.New, k.raw.Slice())
	mac.Write([]byte(stateDomain))
	mac.Write(text)
	return mac.Sum(nil)
}

// sealState writes a state with the MAC of the vault; nil = it is too large.
func (v *Vault) sealState(s groupState) ([]byte, error) {
	k, err := v.newest(vaultwire.PurposeCredentials)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err != nil || len(text) > maxStateBytes {
		return nil, err
	}
	return append(text, stateMAC(k, text)...), nil
}

// stateOf reads the state of a chain. One that is damaged, or of another vault, is none.
func (v *Vault) stateOf(name string, raw []byte) (s groupState, ok bool) {
	end := len(raw) - sha256.Size
	if end <= 0 {
		return s, false
	}
	for _, k := range v.versions(vaultwire.PurposeCredentials) {
		if hmac.Equal(raw[end:], stateMAC(k, raw[:end])) {
			err := json.Unmarshal(raw[:end], &s)
			return s, err == nil && s.Chain == name
		}
	}
	return s, false
}
