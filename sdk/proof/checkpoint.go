package proof

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/sdk/wire/cosign"
)

// Log is whose checkpoints are believed.
type Log struct {
	key     string
	signer  note.Verifier
	earlier []note.Verifier // whose checkpoints this machine believed before
	witness note.Verifier   // nil = none is required
}

// NewLog returns the log with a verifier key, NAME+HASH+KEY as in
// golang.org/x/mod/sumdb/note. With a witness, the verifier key of a cosigner
// (c2sp.org/tlog-cosignature), a checkpoint is believed only when the witness
// signed it too; "" asks for none. Keys that the log had earlier verify what was
// believed then, see [Log.Reopen].
func NewLog(key, witness string, earlier ...string) (*Log, error) {
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
	if witness != "" {
		if l.witness, err = cosign.NewVerifier(witness); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// CheckKey says what is wrong with the text of a log's verifier key, or nothing.
func CheckKey(key string) error {
	_, err := NewLog(key, "")
	return err
}

// Key returns the verifier key.
func (l *Log) Key() string { return l.key }

// Origin is the log's name.
func (l *Log) Origin() string { return l.signer.Name() }

// Checkpoint is one that was verified.
type Checkpoint struct {
	tlog.Tree
	Chains    chain.Hash // root of the tree of chains
	HasChains bool       // false in checkpoints from before there were chains
	Note      string     // as it was signed
}

// maxRecords bounds a tree: package tlog does not end for sizes near 2^63.
const maxRecords = 1 << 48

// Open verifies a checkpoint.
func (l *Log) Open(raw string) (Checkpoint, error) {
	c, err := l.read(raw, l.signer)
	if err != nil || l.witness == nil {
		return c, err
	}
	if _, err := note.Open([]byte(raw), note.VerifierList(l.witness)); err != nil {
		return c, refuse(0, "the checkpoint of %d records lacks the signature of the witness %s", c.N, l.witness.Name())
	}
	return c, nil
}

// Reopen verifies a checkpoint that was believed before, maybe when no witness was
// required or the log had another key.
func (l *Log) Reopen(raw string) (c Checkpoint, err error) {
	return l.read(raw, append(l.earlier[:len(l.earlier):len(l.earlier)], l.signer)...)
}

// read verifies a checkpoint that one of these keys signed.
func (l *Log) read(raw string, by ...note.Verifier) (c Checkpoint, err error) {
	opened, err := note.Open([]byte(raw), note.VerifierList(by...))
	if err != nil {
		return c, refuse(0, "the checkpoint was not signed with the key %s: %v", l.key, err)
	}
	// As c2sp.org/tlog-checkpoint: the log's own name, size, root, and lines of
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
		root, ok := strings.CutPrefix(line, wire.ChainsLine)
		if !ok {
			continue
		}
		if c.HasChains || decodeHash(root, &c.Chains) != nil {
			return c, refuse(0, "the checkpoint makes no sense: %q", line)
		}
		c.HasChains = true
	}
	return c, nil
}

// Continues checks that c continues a checkpoint that was verified before, by the
// hashes that prove it (RFC 6962 section 2.1.2). The zero checkpoint is continued
// by every other.
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
