package proof

import (
	"golang.org/x/mod/sumdb/note"

	"github.com/svcfs/svcfs/sdk/wire"
)

// Successors returns the keys that replaced key one after the other, the newest last. Each
// statement is one replacement, which both keys signed. The name of a log never changes.
func Successors(key string, statements []string) (keys []string) {
	for _, raw := range statements {
		if next, ok := succeeds(key, raw); ok {
			key = next
			keys = append(keys, key)
		}
	}
	return keys
}

// succeeds returns the key that replaced key by one statement.
func succeeds(key, raw string) (next string, ok bool) {
	v, err := note.NewVerifier(key)
	if err != nil {
		return "", false
	}
	opened, err := note.Open([]byte(raw), note.VerifierList(v))
	if err != nil {
		return "", false
	}
	before, after, ok := wire.ParseLogKeyStatement(opened.Text)
	if !ok || before != key {
		return "", false
	}
	w, err := note.NewVerifier(after)
	if err != nil || w.Name() != v.Name() {
		return "", false
	}
	if _, err := note.Open([]byte(raw), note.VerifierList(w)); err != nil { // the new key must have signed too
		return "", false
	}
	return after, true
}
