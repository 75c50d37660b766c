package checkpoint

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// freshness bounds the age of a record of a chain that is missing in the checkpoint
// beside a listing. It is longer than interval, so that most listings wait for no
// checkpoint, and far below chain.MaxMergeDelaySeconds.
const freshness = 2 * time.Second

// Question asks for the end of a group's chain.
type Question struct {
	Group     string
	Nonce     string // of the request
	KnownSize int64  // records in the newest checkpoint that the client verified

	// Names, where it is set, asks for the root of names too. It is called with the names in the transaction, from
	// which they read, and must not change them. It is not called for a group of which no root is signed.
	Names func(context.Context, *store.Tx, *chain.Names) error
}

// check refuses a question that cannot be signed.
func (q Question) check() error {
	if q.Nonce == "" || len(q.Nonce) > wire.MaxNonceBytes {
		return fault.New(wire.CodeValidation, "nonce must be 1 to %d letters and digits", wire.MaxNonceBytes)
	}
	for _, c := range []byte(q.Nonce) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return fault.New(wire.CodeValidation, "nonce must be 1 to %d letters and digits", wire.MaxNonceBytes)
		}
	}
	if q.KnownSize < 0 {
		return fault.New(wire.CodeValidation, "known_size must be 0 or more")
	}
	return nil
}

// Prove calls read in a transaction, and returns the proof of the chain in that
// transaction. The checkpoint in the proof is older than the transaction. When the
// checkpoint lags, Prove updates the log and calls read once more; so read starts over
// at each call. A log that has stopped gives neither a proof nor a list.
func (l *Log) Prove(ctx context.Context, q Question, read func(*store.Tx) error) (proof wire.ChainProof, err error) {
	if err := q.check(); err != nil {
		return proof, err
	}
	for updated, waited := false, false; ; {
		if err := l.Problem(); err != nil {
			return proof, &fault.Error{Code: wire.CodeUnproven, Err: err,
				Text: "the ledger contradicts its signed checkpoint, so it can prove nothing: the operator finds the " +
					"row with svcd audit"}
		}
		signed, file := l.newest()
		var end ending
		lags := false
		err := l.store.Read(ctx, func(tx *store.Tx) (err error) {
			if err = read(tx); err == nil {
				end, lags, err = l.ending(ctx, tx, signed, q)
			}
			return err
		})
		switch {
		case err != nil:
			return proof, err
		case end.behind != nil && !waited:
			if err := l.names.wait(ctx, q.Group, *end.behind); err != nil {
				return proof, err
			}
			waited = true
			continue
		case !lags:
			return l.proof(ctx, signed, file, q, end)
		case updated:
			return proof, unproven("the ledger's newest records are not signed yet: try again in a moment", nil)
		}
		if err := l.updateSoon(ctx); err != nil {
			return proof, err
		}
		updated = true
	}
}

// ending is the end of a chain, with its root of names; nil = it is not stated.
type ending struct {
	chain.Place
	names  *chain.Hash
	behind *lag // of the names; nil = they are not
}

// ending returns the end of the chain, or that a checkpoint is too old for it.
func (l *Log) ending(ctx context.Context, tx *store.Tx, signed Checkpoint, q Question) (end ending, lags bool,
	err error) {
	if end.Place, err = ledger.ChainEnd(ctx, tx, chain.OfGroup(q.Group)); err != nil {
		return end, false, err
	}
	if lags, err = signed.lags(ctx, tx, q, end.Place, l.now()); err != nil || lags {
		return end, lags, err
	}
	keys, err := l.keys(ctx, tx)
	if err != nil || !signed.isSignedBy(keys) {
		return end, err == nil, err
	}
	if q.Names != nil {
		end.names, end.behind, err = l.names.root(ctx, tx, q, end.Place)
	}
	return end, false, err
}

// updateSoon is Update within maxWait.
func (l *Log) updateSoon(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	err := l.Update(bounded)
	if err == nil || ctx.Err() != nil || l.Problem() != nil { // the caller reports a problem
		return ctx.Err()
	}
	return unproven("the ledger's newest records cannot be signed now: try again in a moment", err)
}

func unproven(text string, cause error) error {
	return &fault.Error{Code: wire.CodeUnavailable, Text: text, RetryAfter: time.Second, Err: cause}
}

// lags reports that a checkpoint is too old for a listing with this head: it misses
// records that the client knows and the ledger has, or the newest records of the chain.
func (c Checkpoint) lags(ctx context.Context, tx *store.Tx, q Question, head chain.Place, now time.Time) (bool, error) {
	if c.tree == nil {
		return true, nil
	}
	if c.N < q.KnownSize {
		if last, err := ledger.Size(ctx, tx); err != nil || c.N < last {
			return true, err
		}
	}
	in, _, _ := c.tree.Find(chain.OfGroup(q.Group))
	if in.Number >= head.Number {
		return false, nil
	}
	oldest, err := ledger.NewestInChain(ctx, tx, q.Group, head.Number-in.Number)
	if err != nil {
		return true, err
	}
	age := now.Sub(oldest)
	return age > freshness || age < 0, nil
}

func (l *Log) proof(ctx context.Context, c Checkpoint, file *os.File, q Question,
	end ending) (p wire.ChainProof, err error) {
	name := chain.OfGroup(q.Group)
	s := chain.Stated{Statement: chain.Statement{Chain: name, Place: end.Place}, Kind: chain.StatedHead, Nonce: q.Nonce}
	p.Checkpoint = string(c.Note)
	p.Head, err = l.state(ctx, c.key, s)
	if err == nil && end.names != nil {
		p.Names = &wire.SignedNames{Root: hex.EncodeToString(end.names[:])}
		s.Kind, s.Names = chain.StatedNames, *end.names
		p.Names.ChainHead, err = l.state(ctx, c.key, s)
	}
	if err != nil {
		return p, err
	}
	if in, path, ok := c.tree.Find(name); ok {
		p.Chain = &wire.ChainInclusion{Number: in.Number, Hash: hex.EncodeToString(in.Hash[:]),
			Path: make([]string, 0, len(path))}
		for _, h := range path {
			p.Chain.Path = append(p.Chain.Path, base64.StdEncoding.EncodeToString(h[:]))
		}
	}
	if q.KnownSize <= 0 || q.KnownSize >= c.N {
		return p, nil
	}
	hashes, err := tlog.ProveTree(c.N, q.KnownSize, hashReader(file))
	if err != nil {
		return p, fmt.Errorf("prove consistency: %w", err)
	}
	for _, h := range hashes {
		p.Consistency = append(p.Consistency, h.String())
	}
	return p, nil
}

// Receipt states that a record is in its chain. The caller hands it out only once the
// record is durable.
func (l *Log) Receipt(ctx context.Context, tx *store.Tx, r chain.Row) (*wire.ChainHead, error) {
	keys, err := l.keys(ctx, tx)
	if err != nil {
		return nil, err
	}
	head, err := l.state(ctx, newest(keys), chain.Stated{Kind: chain.StatedReceipt,
		Statement: chain.Statement{Chain: r.Chain, Place: chain.Place{Number: r.Number, Hash: r.Hash}}})
	return &head, err
}

// SignPage states, for the request of a question, that a group's chain has a record at a place.
func (l *Log) SignPage(ctx context.Context, tx *store.Tx, q Question, at chain.Place) (*wire.ChainHead, error) {
	keys, err := l.keys(ctx, tx)
	if err != nil {
		return nil, err
	}
	page, err := l.state(ctx, newest(keys), chain.Stated{Kind: chain.StatedPage, Nonce: q.Nonce,
		Statement: chain.Statement{Chain: chain.OfGroup(q.Group), Place: at}})
	return &page, err
}

// SignEpoch signs a key for uploads of the vault.
func (l *Log) SignEpoch(ctx context.Context, tx *store.Tx, e vaultwire.Epoch) (signature []byte, err error) {
	keys, err := l.keys(ctx, tx)
	if err != nil {
		return nil, err
	}
	signed, err := newest(keys).Sign(ctx, vaultwire.Sign{Origin: l.origin, Epoch: &e})
	return signed.Signature, err
}

// state signs a statement now.
func (l *Log) state(ctx context.Context, key Key, s chain.Stated) (head wire.ChainHead, err error) {
	s.TimeNS = l.now().UnixNano()
	signed, err := key.Sign(ctx, vaultwire.Sign{Origin: l.origin, Statement: &s})
	if err != nil {
		return head, fmt.Errorf("sign the end of a chain: %w", err)
	}
	return wire.ChainHead{Number: s.Number, Hash: hex.EncodeToString(s.Hash[:]),
		Timestamp: strconv.FormatInt(s.TimeNS, 10),
		Signature: base64.StdEncoding.EncodeToString(signed.Signature)}, nil
}
