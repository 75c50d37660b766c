package sdk

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

// Every save asks for the log. The signature of a checkpoint is verified once, and each other
// checkpoint anew.
func TestTrustedLogVerifiesACheckpointOnce(t *testing.T) {
	t.Parallel()
	secret, key, err := note.GenerateKey(nil, "svc.example/log")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(secret)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New("alice.svc.testnet", Config{URL: "http://127.0.0.1:1", LogKey: key})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	log := func(want int64) any {
		t.Helper()
		log, newest, err := c.log.open(t.Context())
		if err != nil || newest.N != want {
			t.Fatalf("a checkpoint of %d records, %v; want %d", newest.N, err, want)
		}
		return log
	}
	before := log(0)
	for size := int64(1); size < 3; size++ {
		signed, err := note.Sign(&note.Note{Text: fmt.Sprintf("svc.example/log\n%d\n%s=\n", size, strings.Repeat("A", 43))}, signer)
		if err != nil {
			t.Fatal(err)
		}
		c.memory.Checkpoint(string(signed), size)
		now := log(size)
		if now == before || log(size) != now {
			t.Error("a checkpoint is not verified once")
		}
		before = now
	}
	c.memory.Checkpoint("svc.example/log\n3\nforged", 3)
	for range 2 {
		if _, _, err := c.log.open(t.Context()); KindOf(err) != ErrCorrupt {
			t.Errorf("a forged checkpoint: %v", err)
		}
	}
}
