package proof

import (
	"golang.org/x/mod/sumdb/note"

	"github.com/svcfs/svcfs/sdk/wire"
)

// Successor returns the verifier key with which a log goes on that had the given
// one: each step is a statement that the key before and the key after it signed.
// Without one it is the given key itself. The name of a log never changes.
func Successor(key string, statements []string) string {
	for _, raw := range statements {
		if next, ok := succeeds(key, raw); ok {
			key = next
		}
	}
	return key
}

// succeeds reads one statement about key.
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
	if _, err := note.Open([]byte(raw), note.VerifierList(w)); err != nil { // the later key signed too
		return "", false
	}
	return after, true
}
