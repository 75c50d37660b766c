package proof_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/proof"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/testkit"
)

// six is a chain of six records.
func six() []chain.Record {
	var records []chain.Record
	var at chain.Place
	for i := range int64(6) {
		r := chain.Record{Seq: 2*i + 1, TimeNS: i + 1e18, Tx: fmt.Sprint("tx", i), Kind: "record_transaction", Account: "a", Group: "team", Ref: fmt.Sprint("ref", i), Fee: "0", Request: "r",
			Chain: chain.OfGroup("team"), Number: i + 1, Prev: at.Hash}
		at = chain.PlaceOf(&r)
		records = append(records, r)
	}
	return records
}

// world signs for a chain.
type world struct {
	*history
	key  ed25519.PrivateKey
	tree chain.Tree
}

func newWorld(t testing.TB) *world {
	return &world{history: newHistory(t, 9), key: ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", ed25519.SeedSize)))}
}

// prove is what an honest service says beside a list that ends at p.
func (w *world) prove(name string, p chain.Place, nonce string, at time.Time) wire.ChainProof {
	w.t.Helper()
	root := w.tree.Root()
	out := wire.ChainProof{Checkpoint: string(w.checkpoint(fmt.Sprintf("%s\n%d\n%s\n%s%s\n", origin, w.signed(), w.root(), wire.ChainsLine, base64.StdEncoding.EncodeToString(root[:]))))}
	if held, path, ok := w.tree.Find(name); ok {
		out.Chain = &wire.ChainInclusion{Number: held.Number, Hash: hex.EncodeToString(held.Hash[:])}
		for _, h := range path {
			out.Chain.Path = append(out.Chain.Path, base64.StdEncoding.EncodeToString(h[:]))
		}
	}
	s := chain.Statement{Origin: origin, Chain: name, Place: p, TimeNS: at.UnixNano()}
	out.Head = w.head(s, s.HeadText(nonce))
	return out
}

func (w *world) head(s chain.Statement, text []byte) wire.ChainHead {
	return wire.ChainHead{Number: s.Number, Hash: hex.EncodeToString(s.Hash[:]), Timestamp: fmt.Sprint(s.TimeNS), Signature: base64.StdEncoding.EncodeToString(ed25519.Sign(w.key, text))}
}

func add(l *proof.Listing, records []chain.Record) error {
	for i := range records {
		if err := l.Add(&records[i]); err != nil {
			return err
		}
	}
	return nil
}

// A chain is verified in one piece and in two, and what a list leaves out is filled in.
func TestListingInPieces(t *testing.T) {
	w := newWorld(t)
	name, now := chain.OfGroup("team"), time.Unix(0, 1e18+6)
	all := six()
	var end chain.Place
	for i := range all {
		end = chain.PlaceOf(&all[i])
		w.tree = w.tree.With(name, end)
	}
	for i := range all {
		all[i].Prev = chain.Hash{} // left out
	}
	whole := proof.NewListing(name, proof.Cursor{}, proof.Past{}, now)
	if err := add(whole, all[:4]); err != nil {
		t.Fatal(err)
	}
	if _, err := whole.End(w.log(), proof.Checkpoint{}, w.prove(name, end, "n", now), "n"); err == nil {
		t.Error("a list of four of six records was believed")
	}
	if err := add(whole, all[4:]); err != nil {
		t.Fatal(err)
	}
	if _, err := whole.End(w.log(), proof.Checkpoint{}, w.prove(name, end, "n", now), "n"); err != nil {
		t.Fatal(err)
	}
	first := proof.NewListing(name, proof.Cursor{}, proof.Past{}, now)
	if err := add(first, all[:5]); err != nil {
		t.Fatal(err)
	}
	second := proof.NewListing(name, first.Cursor(), proof.Past{Place: whole.Cursor().Place}, now)
	if err := add(second, all[5:]); err != nil {
		t.Fatal(err)
	}
	if _, err := second.End(w.log(), proof.Checkpoint{}, w.prove(name, end, "m", now), "m"); err != nil || second.Cursor().Place != end {
		t.Errorf("in two pieces: %+v, %v", second.Cursor(), err)
	}
}

// The end of a chain, and its root of names, are believed without the records only where all of it is signed for this
// request and contradicts nothing that was seen.
func TestThreat76PartsThatAreRefused(t *testing.T) {
	name, now, all := chain.OfGroup("team"), time.Unix(0, 1e18+6), six()
	place := func(n int) chain.Place { return chain.PlaceOf(&all[n-1]) }
	other := chain.Place{Number: 5, Hash: chain.Hash{5}}
	for what, c := range map[string]struct {
		text string // "" = it is believed
		to   func(w *world, end *chain.Place, must *proof.Past, p *wire.ChainProof)
	}{
		"honest":      {"", nil},
		"seen before": {"", func(_ *world, end *chain.Place, must *proof.Past, _ *wire.ChainProof) { must.Place = *end }},
		"seen less":   {"", func(_ *world, _ *chain.Place, must *proof.Past, _ *wire.ChainProof) { must.Place = place(4) }},
		"older": {"newer ones are left out", func(_ *world, _ *chain.Place, must *proof.Past, _ *wire.ChainProof) {
			must.Place = place(6)
		}},
		"another": {"not those that were seen", func(_ *world, _ *chain.Place, must *proof.Past, _ *wire.ChainProof) {
			must.Place = other
		}},
		"no root": {"no root of names", func(_ *world, _ *chain.Place, _ *proof.Past, p *wire.ChainProof) {
			p.Names = nil
		}},
		"of yesterday": {"not signed for this request", func(w *world, end *chain.Place, _ *proof.Past, p *wire.ChainProof) {
			p.Names = w.names(name, *end, "m")
		}},
		"of before": {"signed for other records", func(w *world, _ *chain.Place, _ *proof.Past, p *wire.ChainProof) {
			p.Names = w.names(name, place(4), "n")
		}},
		"root swapped": {"not signed for this request", func(_ *world, _ *chain.Place, _ *proof.Past, p *wire.ChainProof) {
			p.Names.Root = strings.Repeat("00", 32)
		}},
		"root of no hex": {"hex", func(_ *world, _ *chain.Place, _ *proof.Past, p *wire.ChainProof) { p.Names.Root = "x" }},
		"head of no hex": {"hex", func(_ *world, _ *chain.Place, _ *proof.Past, p *wire.ChainProof) { p.Head.Hash = "x" }},
		"another in the checkpoint": {"another one in the signed checkpoint", func(w *world, _ *chain.Place,
			_ *proof.Past, p *wire.ChainProof) {
			w.tree = w.tree.With(name, other)
			*p = w.prove(name, place(5), "n", now)
		}},
		"what was seen is another in the checkpoint": {"another one in the signed checkpoint",
			func(w *world, _ *chain.Place, must *proof.Past, p *wire.ChainProof) {
				must.Place, must.Proven = place(4), 4
				w.tree = w.tree.With(name, chain.Place{Number: 4, Hash: chain.Hash{5}})
				*p = w.prove(name, place(5), "n", now)
			}},
	} {
		w, end, must := newWorld(t), place(5), proof.Past{}
		w.tree = w.tree.With(name, end)
		p := w.prove(name, end, "n", now)
		p.Names = w.names(name, end, "n")
		if c.to != nil {
			c.to(w, &end, &must, &p)
		}
		part, err := proof.OpenPart(w.log(), name, proof.Checkpoint{}, must, p, "n", now)
		var refused *proof.Refusal
		switch {
		case c.text == "" && (err != nil || part.Place != end || part.Proven != 5 || part.Names != chain.Hash{7}):
			t.Errorf("%s: %+v, %v", what, part, err)
		case c.text != "" && (!errors.As(err, &refused) || !strings.Contains(refused.Text, c.text)):
			t.Errorf("%s: %v, want %q", what, err, c.text)
		}
	}
}

// A list goes on behind a part, of which the first two records are in the checkpoint, and the next two are not known.
func TestThreat76ListsBehindAPart(t *testing.T) {
	name, now, all := chain.OfGroup("team"), time.Unix(0, 1e18+6), six()
	place := func(n int) chain.Place { return chain.PlaceOf(&all[n-1]) }
	for _, c := range []struct {
		held   int
		forged bool
		proven int64 // -1 = the list is refused
	}{{1, false, 2}, {2, false, 2}, {3, false, 3}, {4, false, 4}, {4, true, -1}, {5, false, 5}, {5, true, -1},
		{6, false, 6}, {6, true, -1}} {
		w := newWorld(t)
		w.tree = w.tree.With(name, place(2))
		p := w.prove(name, place(4), "n", now)
		p.Names = w.names(name, place(4), "n")
		part, err := proof.OpenPart(w.log(), name, proof.Checkpoint{}, proof.Past{}, p, "n", now)
		if err != nil {
			t.Fatal(err)
		}
		l := proof.NewListing(name, part.Cursor(all[3].Seq), proof.Past{}, now)
		if err := add(l, all[4:]); err != nil {
			t.Fatal(err)
		}
		held := place(c.held)
		if c.forged {
			held.Hash = chain.Hash{5}
		}
		w.tree = chain.Tree{}.With("group:other", chain.Place{Number: 1}).With(name, held)
		_, err = l.End(w.log(), proof.Checkpoint{}, w.prove(name, place(6), "m", now), "m")
		if c.proven < 0 != (err != nil) || err == nil && l.Cursor().Proven() != c.proven {
			t.Errorf("%+v: %v, %d are proven", c, err, l.Cursor().Proven())
		}
	}
}

// names signs a root of names.
func (w *world) names(name string, p chain.Place, nonce string) *wire.SignedNames {
	root := chain.Hash{7}
	s := chain.Statement{Origin: origin, Chain: name, Place: p}
	return &wire.SignedNames{ChainHead: w.head(s, s.NamesText(nonce, root)), Root: hex.EncodeToString(root[:])}
}

func TestThreat6ListingsThatAreRefused(t *testing.T) {
	name := chain.OfGroup("team")
	for what, change := range map[string]struct {
		text string
		to   func([]chain.Record) []chain.Record
	}{
		"of no chain":        {"another chain", func(l []chain.Record) []chain.Record { l[4].Chain = ""; return l }},
		"of another group":   {"another chain", func(l []chain.Record) []chain.Record { l[1].Group = "other"; return l }},
		"a retrieval":        {"another chain", func(l []chain.Record) []chain.Record { l[1].Kind = "claim_token"; return l }},
		"filed in another":   {"another chain", func(l []chain.Record) []chain.Record { l[4].Chain = "group:other"; return l }},
		"left out":           {"left out", func(l []chain.Record) []chain.Record { return append(l[:4:4], l[5]) }},
		"one early left out": {"left out", func(l []chain.Record) []chain.Record { return append(l[:1:1], l[2:]...) }},
		"not ascending":      {"listed after", func(l []chain.Record) []chain.Record { l[5].Seq = l[4].Seq; return l }},
	} {
		l := proof.NewListing(name, proof.Cursor{}, proof.Past{}, time.Now())
		err := add(l, change.to(six()))
		var refused *proof.Refusal
		if !errors.As(err, &refused) || !strings.Contains(refused.Text, change.text) {
			t.Errorf("%s: %v, want %q", what, err, change.text)
		}
	}
}

// What stands beside a list is refused when any of it is wrong.
func TestThreat6ProofsThatAreRefused(t *testing.T) {
	name, now := chain.OfGroup("team"), time.Unix(0, 1e18+6)
	later := now.Add(11 * time.Second)
	for what, c := range map[string]struct {
		text string
		to   func(w *world, p *wire.ChainProof, end chain.Place)
	}{
		"no checkpoint": {"not signed with the key", func(_ *world, p *wire.ChainProof, _ chain.Place) { p.Checkpoint = "" }},
		"without chains": {"does not hold the chains", func(w *world, p *wire.ChainProof, _ chain.Place) {
			p.Checkpoint = string(w.checkpoint(fmt.Sprintf("%s\n%d\n%s\n", origin, w.signed(), w.root())))
		}},
		"chains twice": {"makes no sense", func(w *world, p *wire.ChainProof, _ chain.Place) {
			p.Checkpoint = string(w.checkpoint(fmt.Sprintf("%s\n%d\n%s\n%s%s\n%s%s\n", origin, w.signed(), w.root(), wire.ChainsLine, strings.Repeat("A", 43)+"=", wire.ChainsLine, strings.Repeat("A", 43)+"=")))
		}},
		"other chain's path": {"does not hold what", func(_ *world, p *wire.ChainProof, _ chain.Place) { p.Chain.Path = p.Chain.Path[1:] }},
		"path of garbage":    {"makes no sense", func(_ *world, p *wire.ChainProof, _ chain.Place) { p.Chain.Path[0] = "AA" }},
		"other place":        {"does not hold what", func(_ *world, p *wire.ChainProof, _ chain.Place) { p.Chain.Number-- }},
		"hash of garbage":    {"64 hex digits", func(_ *world, p *wire.ChainProof, _ chain.Place) { p.Chain.Hash = "zz" }},
		"chain held longer": {"are listed", func(w *world, p *wire.ChainProof, end chain.Place) {
			w.tree = w.tree.With(name, chain.Place{Number: 7, Hash: end.Hash})
			*p = w.prove(name, end, "n", now)
		}},
		"chain held otherwise": {"not those in the signed checkpoint", func(w *world, p *wire.ChainProof, end chain.Place) {
			w.tree = w.tree.With(name, chain.Place{Number: 4, Hash: chain.Hash{1}})
			*p = w.prove(name, end, "n", now)
		}},
		"not held, and not young": {"in no signed checkpoint", func(w *world, p *wire.ChainProof, end chain.Place) {
			w.tree = (chain.Tree{}).With("group:other", end)
			*p = w.prove(name, end, "n", later)
		}},
		"head of another request": {"for this request", func(w *world, p *wire.ChainProof, end chain.Place) { *p = w.prove(name, end, "m", now) }},
		"head of garbage":         {"makes no sense", func(_ *world, p *wire.ChainProof, _ chain.Place) { p.Head.Signature = "?" }},
		"head without time":       {"makes no sense", func(_ *world, p *wire.ChainProof, _ chain.Place) { p.Head.Timestamp = "" }},
		"receipt as a head": {"for this request", func(w *world, p *wire.ChainProof, end chain.Place) {
			s := chain.Statement{Origin: origin, Chain: name, Place: end, TimeNS: now.UnixNano()}
			p.Head = w.head(s, s.ReceiptText())
		}},
		"shorter chain": {"are listed, and", func(w *world, p *wire.ChainProof, end chain.Place) {}},
	} {
		w := newWorld(t)
		all := six()
		var end chain.Place
		for i := range all {
			end = chain.PlaceOf(&all[i])
		}
		w.tree = (chain.Tree{}).With("group:other", chain.Place{Number: 1}).With(name, end).With("group:third", end)
		p := w.prove(name, end, "n", now)
		c.to(w, &p, end)
		must := proof.Past{}
		if what == "shorter chain" {
			c.text, must = "newer ones are left out", proof.Past{Place: chain.Place{Number: 7}}
		}
		l := proof.NewListing(name, proof.Cursor{}, must, now)
		if err := add(l, all); err != nil {
			t.Fatal(err)
		}
		_, err := l.End(w.log(), proof.Checkpoint{}, p, "n")
		var refused *proof.Refusal
		if !errors.As(err, &refused) || !strings.Contains(refused.Text, c.text) {
			t.Errorf("%s: %v, want %q", what, err, c.text)
		}
	}
}

// A record that is in no checkpoint yet is believed for ten seconds, by the
// service's clock and by this one.
func TestYoungRecordsMustBeSigned(t *testing.T) {
	w := newWorld(t)
	name := chain.OfGroup("team")
	all := six()[:3]
	start := time.Unix(0, 1e18+6)
	var cursor proof.Cursor
	for _, c := range []struct {
		service, here time.Duration
		held          bool
		ok            bool
	}{{0, 0, false, true}, {9 * time.Second, 9 * time.Second, false, true}, {9 * time.Second, 12 * time.Second, false, false},
		{12 * time.Second, 5 * time.Second, false, false}, {12 * time.Second, 12 * time.Second, true, true}, {time.Hour, time.Hour, false, true}} {
		l := proof.NewListing(name, cursor, proof.Past{}, start.Add(c.here))
		if cursor.Number == 0 {
			if err := add(l, all); err != nil {
				t.Fatal(err)
			}
		}
		w.tree = chain.Tree{}.With("group:other", chain.Place{Number: 1})
		if c.held {
			w.tree = w.tree.With(name, l.Cursor().Place)
		}
		_, err := l.End(w.log(), proof.Checkpoint{}, w.prove(name, l.Cursor().Place, "n", start.Add(c.service)), "n")
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil {
			cursor = l.Cursor()
		}
	}
}

// longChain is a chain of records with times after the first one, and the places in it, from 0.
func longChain(name string, times ...time.Duration) (records []chain.Record, places []chain.Place) {
	places = make([]chain.Place, 1, len(times)+1)
	for i, after := range times {
		r := chain.Record{Seq: int64(i + 1), TimeNS: 1e18 + int64(after), Kind: chain.KindKeep, Group: "team",
			Chain:  name,
			Number: int64(i + 1), Prev: places[i].Hash}
		records, places = append(records, r), append(places, chain.PlaceOf(&r))
	}
	return records, places
}

// A long list keeps the newest records alone for the checkpoint, which must hold the others: one that lacks them is
// refused as it is of a short list.
func TestLongListings(t *testing.T) {
	const n, kept = 20_000, 4096
	name := chain.OfGroup("team")
	slow, burst, together := make([]time.Duration, n), make([]time.Duration, 2*kept), make([]time.Duration, n)
	for i := range slow {
		slow[i] = time.Duration(i) * 10 * time.Millisecond
	}
	for i := range kept {
		burst[kept+i] = time.Minute
	}
	check := func(times []time.Duration, held int, other bool) (*proof.Listing, error) {
		records, places := longChain(name, times...)
		w, last := newWorld(t), len(records)
		end := time.Unix(0, records[last-1].TimeNS)
		l := proof.NewListing(name, proof.Cursor{}, proof.Past{}, end)
		for i := range records {
			if err := l.Add(&records[i]); err != nil {
				t.Fatal(err)
			}
			if l.Young() > 2*kept && times[last-1] > 0 {
				t.Fatalf("after %d records it keeps %d", i, l.Young())
			}
		}
		if other {
			places[held].Hash = chain.Hash{1}
		}
		w.tree = w.tree.With(name, places[held])
		_, err := l.End(w.log(), proof.Checkpoint{}, w.prove(name, chain.PlaceOf(&records[last-1]), "n", end), "n")
		return l, err
	}
	for _, c := range []struct {
		times []time.Duration
		held  int
		other bool   // than listed
		want  string // "" = it is believed
	}{
		{slow, n, false, ""},
		{slow, n - 500, false, ""},
		{slow, n - 2000, false, "in no signed checkpoint for more than 10s"},
		{slow, 3, false, "record 4 of this group has been in no signed checkpoint"},
		{slow, 0, false, "record 1 of this group has been in no signed checkpoint"},
		{slow, n - 1, true, "are not those in the signed checkpoint"},
		{burst, kept, false, ""},
		{burst, kept, true, "record 4096 of this group is another one in the signed checkpoint"},
		{burst, kept - 1, false, "record 4096 of this group has been in no signed checkpoint"},
		{burst, kept + 1, true, "are not those in the signed checkpoint"},
		{together, 1, false, ""},
	} {
		l, err := check(c.times, c.held, c.other)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d of %d records are held: %v, want %q", c.held, len(c.times), err, c.want)
		}
		if c.want == "" && l.Cursor().Proven() != int64(c.held) {
			t.Errorf("%d of %d records are proven", l.Cursor().Proven(), c.held)
		}
	}
}

// A program that begins remembers how long another one has waited.
func TestThreat6YoungRecordsAcrossPrograms(t *testing.T) {
	w := newWorld(t)
	name, all, now := chain.OfGroup("team"), six()[:3], time.Unix(0, 1e18+6)
	for _, c := range []struct {
		waited time.Duration
		held   int
		ok     bool
	}{{9 * time.Second, 2, true}, {11 * time.Second, 2, false}, {11 * time.Second, 3, true}} {
		var at chain.Place
		for i := range all[:c.held] {
			at = chain.PlaceOf(&all[i])
		}
		w.tree = chain.Tree{}.With("group:other", chain.Place{Number: 1}).With(name, at)
		l := proof.NewListing(name, proof.Cursor{}, proof.Past{Proven: 2, Since: now.Add(-c.waited)}, now)
		if err := add(l, all); err != nil {
			t.Fatal(err)
		}
		if _, err := l.End(w.log(), proof.Checkpoint{}, w.prove(name, l.Cursor().Place, "n", now), "n"); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestReceipts(t *testing.T) {
	w := newWorld(t)
	all := six()
	r := all[5]
	place := chain.Place{Number: r.Number, Hash: r.Sum()}
	s := chain.Statement{Origin: origin, Chain: r.Chain, Place: place, TimeNS: 7}
	if got, err := proof.CheckReceipt(w.log(), &r, w.head(s, s.ReceiptText())); err != nil || got != place {
		t.Errorf("%+v, %v", got, err)
	}
	changed := r
	changed.Detail = "another name"
	for what, err := range map[string]error{
		"head":    second(proof.CheckReceipt(w.log(), &r, w.head(s, s.HeadText("")))),
		"changed": second(proof.CheckReceipt(w.log(), &changed, w.head(s, s.ReceiptText()))),
		"old":     second(proof.CheckReceipt(w.log(), &all[0], w.head(s, s.ReceiptText()))),
		"garbage": second(proof.CheckReceipt(w.log(), &r, wire.ChainHead{Hash: "x"})),
	} {
		if err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// A checkpoint is believed only with the signature of the witness that is required.
func TestThreat6WitnessMustSign(t *testing.T) {
	h := newHistory(t, 3)
	honest, other, namesake := testkit.NewWitness("witness.example/1"), testkit.NewWitness("other.example/1"), testkit.NewWitness("witness.example/1")
	raw := h.checkpoint(fmt.Sprintf("%s\n3\n%s\n", origin, h.root()))
	for _, c := range []struct {
		name string
		note []byte
		ok   bool
	}{{"none", raw, false}, {"the one", honest.Cosign(raw), true}, {"another", other.Cosign(raw), false}, {"both", other.Cosign(honest.Cosign(raw)), true},
		{"its name, another key", namesake.Cosign(raw), false}} {
		log, err := proof.NewLog(h.key, proof.Witness{Key: honest.VerifierKey()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Open(string(c.note)); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := log.Reopen(string(c.note)); err != nil {
			t.Errorf("%s, believed before: %v", c.name, err)
		}
	}
	log, err := proof.NewLog(h.key, proof.Witness{Key: honest.VerifierKey()})
	if err != nil {
		t.Fatal(err)
	}
	var without *proof.Unwitnessed
	var refused *proof.Refusal
	if _, err := log.Open(string(raw)); !errors.As(err, &without) || errors.As(err, &refused) {
		t.Errorf("a service without a witness: %v", err)
	}
	if _, err := log.Open(string(other.Cosign(raw))); errors.As(err, &without) || !errors.As(err, &refused) {
		t.Errorf("a service with another witness: %v", err)
	}
	for _, key := range []string{"x", h.key, "witness.example/1+00000000+" + strings.Split(honest.VerifierKey(), "+")[2]} {
		if (proof.Witness{Key: key}).Check() == nil {
			t.Errorf("key %q was accepted", key)
		}
	}
}

// A signature of the witness counts for a while only: an old checkpoint with its old signature is
// an old history.
func TestThreat6WitnessSignedLately(t *testing.T) {
	h, witness := newHistory(t, 3), testkit.NewWitness("witness.example/1")
	now := time.Unix(1_800_000_000, 0)
	witness.Clock = func() time.Time { return now }
	raw := string(witness.Cosign(h.checkpoint(fmt.Sprintf("%s\n3\n%s\n", origin, h.root()))))
	for _, c := range []struct {
		age, later time.Duration
		ok         bool
		text       string
	}{
		{0, 0, true, ""}, {0, 10 * time.Minute, true, ""}, {0, 10*time.Minute + time.Second, false, "witness.example/1 signed the newest checkpoint 10m1s ago, and it may be 10m0s"},
		{time.Hour, 59 * time.Minute, true, ""}, {24 * time.Hour, 25 * time.Hour, false, "25h0m0s ago"},
		{0, -5 * time.Minute, true, ""}, {24 * time.Hour, -6 * time.Minute, false, "6m0s ahead of the clock"},
	} {
		log, err := proof.NewLog(h.key, proof.Witness{Key: witness.VerifierKey(), Age: c.age, Now: func() time.Time { return now.Add(c.later) }})
		if err != nil {
			t.Fatal(err)
		}
		var stale *proof.Stale
		if _, err := log.Open(raw); (err == nil) != c.ok || !c.ok && (!errors.As(err, &stale) || !strings.Contains(err.Error(), c.text)) {
			t.Errorf("%s later, with %s: %v", c.later, c.age, err)
		}
		if _, err := log.Reopen(raw); err != nil {
			t.Errorf("%s later, believed before: %v", c.later, err)
		}
	}
	for _, age := range []time.Duration{-time.Second, 24*time.Hour + 1} {
		if (proof.Witness{Age: age}).Check() == nil {
			t.Errorf("age %s was accepted", age)
		}
	}
}

// BenchmarkListing verifies a list of 10,000 records. One signed head and one
// checkpoint prove all of them.
func BenchmarkListing(b *testing.B) {
	w, name, now := newWorld(b), chain.OfGroup("team"), time.Unix(0, 1e18)
	records := make([]chain.Record, 10_000)
	var end chain.Place
	for i := range records {
		n := int64(i + 1)
		records[i] = chain.Record{Seq: n, TimeNS: 1e18, Tx: strings.Repeat("t", 64), Kind: chain.KindRecord, Account: "alice.svc.testnet", Group: "team", Ref: fmt.Sprintf("%0150d", i),
			FileHash: strings.Repeat("f", 64), Detail: fmt.Sprintf("entry-%06d.txt", i), Fee: "39000000000000000000000", Request: "0011223344556677", Prev: end.Hash,
			Chain: name, Number: n, Tags: []chain.Tag{{Name: chain.TagType, Value: "text/plain; charset=utf-8"}}}
		end = chain.PlaceOf(&records[i])
	}
	w.tree = w.tree.With(name, end)
	proven, log := w.prove(name, end, "n", now), w.log()
	b.ReportAllocs()
	for b.Loop() {
		l := proof.NewListing(name, proof.Cursor{}, proof.Past{}, now)
		if err := add(l, records); err != nil {
			b.Fatal(err)
		}
		if _, err := l.End(log, proof.Checkpoint{}, proven, "n"); err != nil {
			b.Fatal(err)
		}
	}
}
