package checkpoint

import (
	"crypto/ed25519"
	"encoding/json"
	"net/http"

	"golang.org/x/mod/sumdb/note"

	"github.com/svcfs/svcfs/sdk/wire"
)

// Succeeds tells the log which keys signed it before its own, the oldest first.
// It is called before the log is used.
func (l *Log) Succeeds(keys []ed25519.PrivateKey) { l.earlier = keys }

// statements are what each key and the one after it say together: that the log
// goes on with the later one.
func (l *Log) statements() ([]byte, error) {
	keys := append(l.earlier[:len(l.earlier):len(l.earlier)], l.key)
	answer := wire.LogKeys{Statements: []string{}}
	for i := range keys[1:] {
		before, err := newSigner(l.origin, keys[i])
		if err != nil {
			return nil, err
		}
		after, err := newSigner(l.origin, keys[i+1])
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

func (l *Log) keys(*http.Request) ([]byte, error) { return l.statements() }

// parseAny reads a checkpoint that the log's own key or an earlier one signed.
func (l *Log) parseAny(raw []byte) (c Checkpoint, err error) {
	if c, err = parse(raw, l.key.Public().(ed25519.PublicKey)); err == nil {
		return c, nil
	}
	for _, key := range l.earlier {
		if c, wrong := parse(raw, key.Public().(ed25519.PublicKey)); wrong == nil {
			c.earlier = true
			return c, nil
		}
	}
	return c, err
}
