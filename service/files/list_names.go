package files

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/checkpoint"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

const (
	// namesBytes bounds a page of a folder: names, records and attributes, in bytes. A page has one component at least.
	namesBytes = 1 << 20
	// NamesMemory is how much memory an answer of [Files.Names] takes, at most, in bytes: the page, its proof, both
	// again as text, and what the tree of names takes.
	NamesMemory = 4*namesBytes + checkpoint.NamesMemory
	// namesPause is when a client asks again while the tree of names is built, half a minute for a million files.
	namesPause = 5 * time.Second
	// namesTries is how often the names may have moved on again before they were asked.
	namesTries = 3
)

// errFewRecords: the chain of the group has no more records than the caller wants to read as a whole.
var errFewRecords = errors.New("few records")

// Names proves what lives under one name of a group, or in a page of a folder. Access is as in [Files.List]. Beside
// records that the tree of names does not follow yet, it reads what it answers.
func (f *Files) Names(ctx context.Context, account string, req wire.LivingRequest) (answer wire.LivingResult,
	err error) {
	var from chain.Hash
	if err := checkPage(req, &from); err != nil {
		return answer, err
	}
	var of lister
	read := func(tx *store.Tx) (err error) {
		if of, err = f.lister(ctx, tx, req.GroupID, account); err != nil {
			return err
		}
		end, err := ledger.ChainEnd(ctx, tx, chain.OfGroup(req.GroupID))
		if err == nil && end.Number <= req.Beyond {
			err = errFewRecords
		}
		return err
	}
	// Before anything waits for the tree of names.
	if err := f.store.Read(ctx, read); errors.Is(err, errFewRecords) {
		return answer, nil
	} else if err != nil {
		return answer, err
	}
	question := checkpoint.Question{Group: req.GroupID, Nonce: req.Nonce, KnownSize: req.KnownSize}
	question.Names = func(ctx context.Context, tx *store.Tx, n *chain.Names) (err error) {
		if answer, err = of.living(ctx, tx, n, req, from); err == nil {
			answer.Seq, err = ledger.NewestOf(ctx, tx, req.GroupID)
		}
		return err
	}
	for tries := 0; ; tries++ {
		proof, err := f.log.Prove(ctx, question, read)
		switch {
		case err != nil || proof.Names != nil:
			answer.Proof = &proof
			return answer, err
		case f.log.ReadsNames(req.GroupID):
			return answer, &fault.Error{Code: wire.CodeNamesUnread, RetryAfter: namesPause, Text: fmt.Sprintf(
				"the service still reads the names of group %q: try again in a minute", req.GroupID)}
		case tries == namesTries: // else they are read since
			return answer, fault.New(wire.CodeUnsupported, "the service cannot read the names of group %q: list it",
				req.GroupID)
		}
	}
}

// checkPage checks a request, and reads where its page begins.
func checkPage(req wire.LivingRequest, from *chain.Hash) error {
	if req.Limit < 0 || req.Limit > wire.MaxPageComponents {
		return fault.New(wire.CodeValidation, "limit must be 0 to %d", wire.MaxPageComponents)
	}
	raw, err := hex.DecodeString(req.From)
	if req.From != "" && (err != nil || len(raw) != len(from)) {
		return fault.New(wire.CodeValidation, "from must be that of the page before")
	}
	copy(from[:], raw)
	if err := checkName(req.Name); err != nil {
		return err
	}
	return checkName(req.Folder)
}

// living answers a request from the names of the group.
func (l lister) living(ctx context.Context, tx *store.Tx, n *chain.Names, req wire.LivingRequest,
	from chain.Hash) (wire.LivingResult, error) {
	if req.Name != "" {
		return l.name(ctx, tx, n.Prove(req.Name, 1))
	}
	for most := cmp.Or(req.Limit, wire.MaxPageComponents); ; most /= 2 {
		p, ok := n.ProveFolder(req.Folder, from, most)
		if !ok {
			return l.name(ctx, tx, n.Prove(req.Folder, 1))
		}
		var shown []chain.Living
		room := namesBytes
		for _, c := range p.Inside {
			shown = append(shown, c.Versions...)
			room -= rowBytes + len(c.Name)
		}
		rows, err := l.uploads(ctx, tx, shown, room)
		if err != nil || rows != nil || most <= 1 {
			return wire.LivingResult{Names: p.Encode(), Rows: rows}, err
		}
	}
}

func (l lister) name(ctx context.Context, tx *store.Tx, p chain.NameProof) (wire.LivingResult, error) {
	rows, err := l.uploads(ctx, tx, p.Versions, namesBytes)
	return wire.LivingResult{Names: p.Encode(), Rows: rows}, err
}

// uploads returns the records of versions, in their order; nil if they take more than room bytes, unless it is one.
func (l lister) uploads(ctx context.Context, tx *store.Tx, shown []chain.Living,
	room int) ([]wire.TransactionRow, error) {
	rows, at := make([]wire.TransactionRow, len(shown)), make(map[string]int, len(shown))
	refs := make([]string, 0, len(shown))
	for i, v := range shown {
		at[v.Ref] = i
		refs = append(refs, v.Ref)
		room -= len(v.Attributes)
	}
	found := 0
	err := ledger.Uploads(ctx, tx, refs, func(row ledger.Listed) bool {
		room -= recordBytes(&row.TransactionRow)
		rows[at[row.IPFSHash]] = committed(row, l.key)
		found++
		return room >= 0 || len(shown) == 1
	})
	switch {
	case err != nil:
		return nil, err
	case room < 0 && len(shown) > 1:
		return nil, nil
	case found < len(shown):
		return nil, fmt.Errorf("group %q: %d records of %d living files are missing", l.group, len(shown)-found,
			len(shown))
	}
	return rows, nil
}
