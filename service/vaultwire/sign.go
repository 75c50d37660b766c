package vaultwire

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// Sign asks for a signature with a version of the key of the log, of one of four texts.
type Sign struct {
	Version int64
	Origin  string // of the log

	Statement *chain.Stated // about a chain; its Origin is this one
	Tree      *Tree         // that of [Vault.NewestTree]
	Epoch     *Epoch
	Next      int64 // the key of the log of this version follows the one of the version before
}

// Epoch is a key for uploads of the vault, until a time in seconds since the epoch of Unix.
type Epoch struct{ Number, NotAfter int64 }

// Text is the text that is signed. public gives the public key of a purpose and version. The text of a tree has opens.
// Errors: [ErrNoText], [ErrUnknownKey].
func (q Sign) Text(public func(purpose string, version int64) ([]byte, error), opens wire.Opens,
	now time.Time) ([]byte, error) {
	if q.Origin == "" || strings.ContainsFunc(q.Origin, func(c rune) bool { return c <= ' ' || c == '+' }) {
		return nil, fmt.Errorf("origin %q: %w", q.Origin, ErrNoText)
	}
	kinds := 0
	for _, is := range []bool{q.Statement != nil, q.Tree != nil, q.Epoch != nil, q.Next != 0} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return nil, fmt.Errorf("several texts at once: %w", ErrNoText)
	case q.Statement != nil:
		return q.statement()
	case q.Tree != nil:
		return []byte(wire.CheckpointText(q.Origin, q.Tree.Records, q.Tree.Root, q.Tree.Chains, opens)), nil
	case q.Epoch != nil:
		key, err := public(PurposeUploads, q.Epoch.Number)
		if err != nil {
			return nil, err
		}
		if latest := now.Add(EpochLife + 24*time.Hour); q.Epoch.NotAfter > latest.Unix() {
			return nil, fmt.Errorf("an epoch that ends after %s: %w", latest, ErrNoText)
		}
		return chain.VaultKey{Origin: q.Origin, Epoch: q.Epoch.Number, KEM: format.SealedKeyKEM, Public: key,
			NotAfter: q.Epoch.NotAfter}.Text(), nil
	case q.Next > 0:
		return q.next(public)
	}
	return nil, fmt.Errorf("nothing: %w", ErrNoText)
}

func (q Sign) statement() ([]byte, error) {
	s := *q.Statement
	s.Origin = q.Origin
	text := s.Text()
	isPlain := func(c rune) bool { return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' }
	if text == nil || (s.Nonce == "") != (s.Kind == chain.StatedReceipt) || len(s.Nonce) > wire.MaxNonceBytes ||
		strings.ContainsFunc(s.Nonce, func(c rune) bool { return !isPlain(c) }) {
		return nil, fmt.Errorf("a statement of kind %q with the nonce %q: %w", s.Kind, s.Nonce, ErrNoText)
	}
	return text, nil
}

// next is the statement that one key of the log follows another. Both sign it.
func (q Sign) next(public func(purpose string, version int64) ([]byte, error)) ([]byte, error) {
	if q.Version != q.Next && q.Version != q.Next-1 {
		return nil, fmt.Errorf("key %d says that key %d follows: %w", q.Version, q.Next, ErrNoText)
	}
	var keys [2]string
	for i := range keys {
		key, err := public(PurposeLog, q.Next-1+int64(i))
		if err != nil {
			return nil, err
		}
		if keys[i], err = note.NewEd25519VerifierKey(q.Origin, key); err != nil {
			return nil, fmt.Errorf("name the key of the log: %w", err)
		}
	}
	return []byte(wire.LogKeyStatement(keys[0], keys[1])), nil
}
