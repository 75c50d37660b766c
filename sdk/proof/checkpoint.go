package proof

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/sdk/wire/cosign"
)

// Log is a log of which checkpoints are believed: its key, and the witness that is
// required.
type Log struct {
	key     string
	signer  note.Verifier
	earlier []note.Verifier // keys of the log before, for Reopen
	witness *required       // nil = no witness is required
}

// NewLog returns the log with a verifier key, NAME+HASH+KEY as in
// golang.org/x/mod/sumdb/note. With a witness, a checkpoint is believed only if the witness
// signed it too, not long ago. earlier are the keys that the log had before, for
// [Log.Reopen].
func NewLog(key string, witness Witness, earlier ...string) (*Log, error) {
	signer, err := note.NewVerifier(key)
	if err != nil {
		return nil, fmt.Errorf("verifier key %.200q: want NAME+HASH+KEY", key)
	}
	l := &Log{key: key, signer: signer}
	for _, old := range earlier {
		v, err := note.NewVerifier(old)
		if err != nil {
			return nil, fmt.Errorf("verifier key %.200q: want NAME+HASH+KEY", old)
		}
		l.earlier = append(l.earlier, v)
	}
	if witness.Key == "" {
		return l, nil
	}
	l.witness = &required{age: cmp.Or(witness.Age, DefaultWitnessAge), now: witness.Now}
	if l.witness.now == nil {
		l.witness.now = time.Now
	}
	l.witness.key, err = cosign.NewVerifier(witness.Key)
	return l, err
}

// CheckKey returns what is wrong with the text of a log's verifier key, or nil.
func CheckKey(key string) error {
	_, err := NewLog(key, Witness{})
	return err
}

// Key returns the verifier key.
func (l *Log) Key() string { return l.key }

// Origin returns the name of the log.
func (l *Log) Origin() string { return l.signer.Name() }

// Checkpoint is a verified checkpoint.
type Checkpoint struct {
	tlog.Tree
	Chains    chain.Hash  // root of the tree of chains
	HasChains bool        // the line of that root is there
	Opens     *wire.Opens // of the vault that signed it; nil = it says nothing
	Note      string      // the signed text with its signatures
}

// maxRecords bounds the size of a tree: package tlog does not terminate for sizes near
// 2^63.
const maxRecords = 1 << 48

// Open verifies a checkpoint that the service shows now. Errors: a [*Refusal], a [*Stale] if the
// witness signed it too long ago, and an [*Unwitnessed] if no witness did.
func (l *Log) Open(raw string) (Checkpoint, error) {
	c, err := l.read(raw, l.signer)
	if err != nil || l.witness == nil {
		return c, err
	}
	return c, l.witness.check(raw, c.N)
}

// Reopen verifies a checkpoint that was believed before, perhaps when no witness was
// required or when the log had another key.
func (l *Log) Reopen(raw string) (c Checkpoint, err error) {
	return l.read(raw, append(l.earlier[:len(l.earlier):len(l.earlier)], l.signer)...)
}

// read verifies a checkpoint that one of the keys signed.
func (l *Log) read(raw string, by ...note.Verifier) (c Checkpoint, err error) {
	opened, err := note.Open([]byte(raw), note.VerifierList(by...))
	if err != nil {
		return c, refuse(0, "the checkpoint was not signed with the key %s: %v", l.key, err)
	}
	// The lines are those of c2sp.org/tlog-checkpoint: name of the log, size, root,
	// extensions.
	lines := strings.Split(strings.TrimSuffix(opened.Text, "\n"), "\n")
	if len(lines) < 3 || lines[0] != l.signer.Name() {
		return c, refuse(0, "the checkpoint is of another log than %s", l.signer.Name())
	}
	body, err := tlog.ParseTree([]byte("go.sum database tree\n" + lines[1] + "\n" + lines[2] + "\n"))
	if empty, _ := tlog.TreeHash(0, nil); err != nil || body.N > maxRecords || body.N == 0 && body.Hash != empty {
		return c, refuse(0, "the checkpoint makes no sense")
	}
	c = Checkpoint{Tree: body, Note: raw}
	for _, line := range lines[3:] {
		makesSense := true
		switch root, isChains := strings.CutPrefix(line, wire.ChainsLine); {
		case isChains:
			makesSense = !c.HasChains && decodeHash(root, &c.Chains) == nil
			c.HasChains = true
		case strings.HasPrefix(line, wire.OpensLine):
			opens, err := wire.ParseOpens(line)
			makesSense = c.Opens == nil && err == nil
			c.Opens = &opens
		}
		if !makesSense {
			return c, refuse(0, "the checkpoint makes no sense: %q", line)
		}
	}
	return c, nil
}

// Continues checks that c continues the checkpoint before, which was verified before.
// hashes is the proof (RFC 6962 section 2.1.2), in base64. Every checkpoint continues the
// zero checkpoint.
func (c Checkpoint) Continues(before Checkpoint, hashes []string) error {
	switch {
	case before.N == 0:
		return nil
	case c.N < before.N:
		return refuse(c.N+1, "the signed history ends before it, although %d records were seen", before.N)
	case c.N == before.N && c.Hash == before.Hash:
		return nil
	}
	p := make(tlog.TreeProof, len(hashes))
	for i, text := range hashes {
		if err := decodeHash(text, (*chain.Hash)(&p[i])); err != nil {
			return refuse(0, "the proof that the history was continued makes no sense: %v", err)
		}
	}
	if c.N == before.N || tlog.CheckTree(p, c.N, c.Hash, before.N, before.Hash) != nil {
		return refuse(0, "the history was forked: records 1 to %d are not those that were signed before", before.N)
	}
	return nil
}

var errHash = errors.New("want the 32 bytes of a hash in base64")

func decodeHash(text string, into *chain.Hash) error {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != len(into) {
		return errHash
	}
	copy(into[:], raw)
	return nil
}
