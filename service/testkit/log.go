package testkit

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// Log is a signed ledger in memory that a [Server] shows in place of its own: all that the service says
// of its records and their proofs is said of those of the Log, signed with its key. It follows the
// ledger of the service, and signs a checkpoint with every record, so that a liar's copy is as well
// signed as the truth.
type Log struct {
	origin string
	key    ed25519.PrivateKey
	of     int64 // the newest record of the service that it follows

	// Lag is how many of the newest records no checkpoint holds yet.
	Lag int
	// Freshness is added to the time of every signature.
	Freshness time.Duration
	// Cosign, where it is set, has a witness sign a checkpoint too.
	Cosign func(note []byte) []byte
	// Names, where it is set, changes the names of a group of which a root is signed, and what is signed of them.
	Names func(living *chain.Replay, s *chain.Statement, nonce *string)

	mu sync.Mutex // guards the rest while the service shows it

	statements []string // by which keys replaced one another

	records  []chain.Record
	openings map[string]chain.Opening // what the records commit to, by commitment
	heads    map[string]chain.Place
	hashes   []tlog.Hash
	trees    []chain.Tree // of the first n records, at n
}

func emptyLog(origin string, key ed25519.PrivateKey) *Log {
	return &Log{origin: origin, key: key, openings: map[string]chain.Opening{}, heads: map[string]chain.Place{},
		trees: make([]chain.Tree, 1)}
}

// empty is a log of the same name with a key of its own.
func (l *Log) empty() *Log {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	next := emptyLog(l.origin, key)
	next.of, next.openings = l.of, maps.Clone(l.openings)
	return next
}

// VerifierKey is the public key of the log.
func (l *Log) VerifierKey() string {
	key, err := note.NewEd25519VerifierKey(l.origin, l.key.Public().(ed25519.PublicKey))
	if err != nil {
		panic(err)
	}
	return key
}

// Rekeyed is the same ledger, signed with another key. The statement about it is
// signed by whom signers chooses; nil makes none.
func (l *Log) Rekeyed(signers func(before, after note.Signer) []note.Signer) *Log {
	next := l.empty()
	next.Lag, next.Freshness, next.Cosign = l.Lag, l.Freshness, l.Cosign
	for _, r := range l.records {
		next.append(r)
	}
	next.statements = slices.Clone(l.statements)
	if signers == nil {
		return next
	}
	signed, err := note.Sign(&note.Note{Text: wire.LogKeyStatement(l.VerifierKey(), next.VerifierKey())},
		signers(l.signer(), next.signer())...)
	if err != nil {
		panic(err)
	}
	next.statements = append(next.statements, string(signed))
	return next
}

func (l *Log) signer() note.Signer {
	v, err := note.NewVerifier(l.VerifierKey())
	if err != nil {
		panic(err)
	}
	return logSigner{v, l.key}
}

// ReadHashes reads hashes of the tree.
func (l *Log) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		out[i] = l.hashes[x]
	}
	return out, nil
}

// append adds a record to its chain and the tree.
func (l *Log) append(r chain.Record) {
	r.Chain = chain.Of(r.Kind, r.Account, r.Group)
	before := l.heads[r.Chain]
	r.Number, r.Prev, r.Seq = before.Number+1, before.Hash, int64(len(l.records)+1)
	if r.TimeNS == 0 {
		r.TimeNS = time.Now().UnixNano()
	}
	if r.Fee == "" {
		r.Fee = "0"
	}
	if r.Tx == "" {
		r.Tx = fmt.Sprintf("%064x", r.Seq)
	}
	place := chain.PlaceOf(&r)
	l.heads[r.Chain] = place
	hashes, err := tlog.StoredHashesForRecordHash(r.Seq-1, tlog.RecordHash(place.Hash[:]), l)
	if err != nil {
		panic(err)
	}
	l.records = append(l.records, r)
	l.hashes = append(l.hashes, hashes...)
	l.trees = append(l.trees, l.trees[len(l.trees)-1].With(r.Chain, place))
}

// Rewritten is a consistent lie: a log with the same key in which every record is
// what change makes of it, and those it refuses are left out.
func (l *Log) Rewritten(change func(*chain.Record) (keep bool)) *Log {
	other := emptyLog(l.origin, l.key)
	other.of, other.openings = l.of, maps.Clone(l.openings)
	for _, r := range l.records {
		r.Tags = slices.Clone(r.Tags)
		if change(&r) {
			other.append(r)
		}
	}
	return other
}

// Invent adds a record that no account made, to this log only.
func (l *Log) Invent(r chain.Record) *Log {
	l.append(r)
	return l
}

// Know makes the log list what a record commits to.
func (l *Log) Know(o chain.Opening) *Log {
	l.openings[o.Commitment()] = o
	return l
}

// Opening is what a record commits to.
func (l *Log) Opening(r *chain.Record) chain.Opening { return l.openings[r.FileHash] }

// OpeningFor is what a record of a content commits to that is made up.
func OpeningFor(content string) chain.Opening {
	return chain.Opening{Size: int64(len(content)), Hash: sha256.Sum256([]byte(content))}
}

// row is how a record is listed to a member.
func (l *Log) row(r *chain.Record) wire.TransactionRow {
	row := wire.RowOf(r)
	if o, ok := l.openings[r.FileHash]; ok {
		row.Opening, row.FileHash = o.String(), ""
	}
	for i := range l.records {
		if upload := &l.records[i]; r.Kind != chain.KindRecord && upload.Chain == r.Chain &&
			strconv.FormatInt(upload.Number, 10) == r.Tag(chain.TagUpload) {
			row.UploadSeq = upload.Seq
		}
	}
	return row
}

// Len is how many records the log has.
func (l *Log) Len() int { return len(l.records) }

// signed is how many records the newest checkpoint has.
func (l *Log) signed() int64 { return int64(max(len(l.records)-l.Lag, 0)) }

func (l *Log) checkpoint() []byte {
	n := l.signed()
	root, err := tlog.TreeHash(n, l)
	if err != nil {
		panic(err)
	}
	chains := l.trees[n].Root()
	text := wire.CheckpointText(l.origin, n, chain.Hash(root), chains, wire.Opens{})
	out, err := note.Sign(&note.Note{Text: text}, l.signer())
	if err != nil {
		panic(err)
	}
	if l.Cosign != nil {
		out = l.Cosign(out)
	}
	return out
}

type logSigner struct {
	note.Verifier
	key ed25519.PrivateKey
}

func (s logSigner) Sign(text []byte) ([]byte, error) { return ed25519.Sign(s.key, text), nil }

// provenRows is an answer with rows and what proves them.
type provenRows struct {
	Result []wire.TransactionRow `json:"result"`
	Proof  wire.ChainProof       `json:"proof"`
}

// list answers a request for the chain of a group.
func (l *Log) list(req wire.TransactionsRequest) (any, error) {
	name := chain.OfGroup(req.GroupID)
	out := provenRows{Result: []wire.TransactionRow{}}
	for i := range l.records {
		if r := &l.records[i]; r.Chain == name && r.Seq > req.AfterSeq &&
			(req.Limit == 0 || len(out.Result) < req.Limit) {
			row := l.row(r)
			if wire.IsPageEnd(r.Number) {
				s := l.statement(name, chain.PlaceOf(r))
				page := l.sign(s, s.PageText(req.Nonce))
				row.Page = &page
			}
			out.Result = append(out.Result, row)
		}
	}
	n := l.signed()
	out.Proof.Checkpoint = string(l.checkpoint())
	if req.KnownSize > 0 && req.KnownSize < n {
		proof, err := tlog.ProveTree(n, req.KnownSize, l)
		if err != nil {
			return nil, err
		}
		for _, h := range proof {
			out.Proof.Consistency = append(out.Proof.Consistency, encode64(h[:]))
		}
	}
	if p, path, ok := l.trees[n].Find(name); ok {
		out.Proof.Chain = &wire.ChainInclusion{Number: p.Number, Hash: hex.EncodeToString(p.Hash[:])}
		for _, h := range path {
			out.Proof.Chain.Path = append(out.Proof.Chain.Path, encode64(h[:]))
		}
	}
	s := l.statement(name, l.heads[name])
	out.Proof.Head = l.sign(s, s.HeadText(req.Nonce))
	if req.Names {
		out.Proof.Names = l.names(s, req.Nonce)
	}
	return out, nil
}

// names signs the root of the living names of a chain.
func (l *Log) names(s chain.Statement, nonce string) *wire.SignedNames {
	var living chain.Replay
	for i := range l.records {
		if r := &l.records[i]; r.Chain == s.Chain {
			living.Apply(&chain.Row{Record: *r, Hash: r.Sum()})
		}
	}
	if l.Names != nil {
		l.Names(&living, &s, &nonce)
	}
	root := living.Root()
	return &wire.SignedNames{ChainHead: l.sign(s, s.NamesText(nonce, root)), Root: hex.EncodeToString(root[:])}
}

// all answers a request for every record of a group, with hashes.
func (l *Log) all(req wire.TransactionsRequest) []wire.TransactionRow {
	rows := []wire.TransactionRow{}
	for i := range l.records {
		if r := &l.records[i]; r.Group == req.GroupID && r.Seq > req.AfterSeq && len(rows) < req.Limit {
			rows = append(rows, l.hashedRow(r))
		}
	}
	return rows
}

// hashedRow is how a record is listed alone.
func (l *Log) hashedRow(r *chain.Record) wire.TransactionRow {
	row, sum := l.row(r), r.Sum()
	row.GroupID, row.PrevHash, row.Hash = r.Group, hex.EncodeToString(r.Prev[:]), hex.EncodeToString(sum[:])
	return row
}

func (l *Log) statement(name string, p chain.Place) chain.Statement {
	return chain.Statement{Origin: l.origin, Chain: name, Place: p, TimeNS: time.Now().Add(l.Freshness).UnixNano()}
}

func (l *Log) sign(s chain.Statement, text []byte) wire.ChainHead {
	return wire.ChainHead{Number: s.Number, Hash: hex.EncodeToString(s.Hash[:]),
		Timestamp: strconv.FormatInt(s.TimeNS, 10),
		Signature: encode64(ed25519.Sign(l.key, text))}
}

// receiptOf is the record as it is answered to its maker, and its receipt.
func (l *Log) receiptOf(r *chain.Record) (*wire.TransactionRow, *wire.ChainHead) {
	row := l.hashedRow(r)
	row.Opening, row.FileHash = "", r.FileHash
	s := l.statement(r.Chain, chain.Place{Number: r.Number, Hash: r.Sum()})
	head := l.sign(s, s.ReceiptText())
	return &row, &head
}
