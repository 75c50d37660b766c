package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/note"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// readKeys returns the keys of the log as they are now.
func (l *Log) readKeys(ctx context.Context) (keys []Key, err error) {
	err = l.store.Read(ctx, func(tx *store.Tx) error {
		keys, err = l.keys(ctx, tx)
		return err
	})
	return keys, err
}

// ErrOtherLedger means that the checkpoint in the directory was signed for the ledger of another database.
var ErrOtherLedger = errors.New("the data directory has the signed checkpoint of another ledger")

// IsOwn fails as [ErrOtherLedger]. A directory without a checkpoint belongs to nobody yet, and of one that is damaged
// [Log.Update] tells.
func (l *Log) IsOwn(ctx context.Context) error {
	keys, err := l.readKeys(ctx)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(filepath.Join(l.dir, noteFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read checkpoint: %w", err)
	}
	for _, key := range keys {
		var byOthers *note.UnverifiedNoteError
		if _, err := parse(raw, key.Public()); !errors.As(err, &byOthers) {
			return nil
		}
	}
	return ErrOtherLedger
}

// ForgetEmpty removes the tree of a ledger that had no record yet: an import replaces the key that signed it.
func (l *Log) ForgetEmpty(ctx context.Context) error {
	keys, err := l.readKeys(ctx)
	if err != nil {
		return err
	}
	if signed, err := l.load(keys); err != nil || signed.Note == nil || signed.N > 0 {
		return err
	}
	return os.RemoveAll(l.dir)
}

func newest(keys []Key) Key { return keys[len(keys)-1] }

// isSignedBy reports whether the newest of the keys signed it.
func (c Checkpoint) isSignedBy(keys []Key) bool {
	return c.key != nil && newest(keys).Public().Equal(c.key.Public())
}

// statements are signed by each key and the next one together: the log continues under
// the next key.
func (l *Log) statements(ctx context.Context) ([]byte, error) {
	keys, err := l.readKeys(ctx)
	if err != nil {
		return nil, err
	}
	answer := wire.LogKeys{Statements: []string{}}
	for i := range keys[1:] {
		next := vaultwire.Sign{Origin: l.origin, Next: keys[i+1].Version()}
		before, err := newSigner(ctx, keys[i], next)
		if err != nil {
			return nil, err
		}
		after, err := newSigner(ctx, keys[i+1], next)
		if err != nil {
			return nil, err
		}
		signed, err := note.Sign(&note.Note{Text: wire.LogKeyStatement(before.text, after.text)}, before, after)
		if err != nil {
			return nil, err
		}
		answer.Statements = append(answer.Statements, string(signed))
	}
	return json.Marshal(answer)
}

// parseAny reads a checkpoint that one of the keys signed. The error is of the newest.
func parseAny(raw []byte, keys []Key) (c Checkpoint, err error) {
	for _, key := range keys {
		if c, err = parse(raw, key.Public()); err == nil {
			return c, nil
		}
	}
	return c, err
}
