package proof

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/svcfs/svcfs/sdk/wire/cosign"
)

const (
	// DefaultWitnessAge is the Age of a [Witness] that has none. A service has its witness sign an
	// unchanged checkpoint again each minute.
	DefaultWitnessAge = 10 * time.Minute
	// MaxWitnessAge is the longest Age.
	MaxWitnessAge = 24 * time.Hour
	// witnessAhead is how far the clock of a witness may be ahead of this machine's.
	witnessAhead = 5 * time.Minute
)

// Witness is a cosigner (c2sp.org/tlog-cosignature) that must have signed a checkpoint, lately. The
// zero value is none.
type Witness struct {
	Key string           // verifier key; "" = none is required
	Age time.Duration    // how old its signature may be; 0 = [DefaultWitnessAge]
	Now func() time.Time // nil = time.Now
}

// Stale is the error for a checkpoint that its witness signed too long ago. It is no proof of a
// lie: the witness, or what lies between, may be away. But the service may also show an old history.
type Stale struct {
	Witness string        // its name
	Old     time.Duration // how old the signature is; negative = its time is in the future
	Most    time.Duration // how old it may be
}

// Error returns the witness and both times.
func (s *Stale) Error() string {
	if s.Old < 0 {
		return fmt.Sprintf("the witness %s signed the newest checkpoint at a time that is %s ahead of the clock of "+
			"this machine", s.Witness, -s.Old.Round(time.Second))
	}
	return fmt.Sprintf("the witness %s signed the newest checkpoint %s ago, and it may be %s: the service may show "+
		"an old history", s.Witness, s.Old.Round(time.Second), s.Most)
}

// Unwitnessed is the error for a checkpoint that no witness signed, although one is required. It is no
// proof of a lie: the service may have no witness.
type Unwitnessed struct {
	Witness string // name of the required one
}

// Error returns the witness.
func (u *Unwitnessed) Error() string {
	return fmt.Sprintf("the signature of the witness %s is required, and this service shows none of any witness",
		u.Witness)
}

// Check returns what is wrong with the key or the age, or nil.
func (w Witness) Check() error {
	if w.Age < 0 || w.Age > MaxWitnessAge {
		return fmt.Errorf("age of a witness's signature %s: want at most %s", w.Age, MaxWitnessAge)
	}
	if w.Key == "" {
		return nil
	}
	_, err := cosign.NewVerifier(w.Key)
	return err
}

// required is a witness whose key was parsed.
type required struct {
	key *cosign.Verifier
	age time.Duration
	now func() time.Time
}

// check verifies the signature of the witness on a checkpoint of n records.
func (w *required) check(raw string, n int64) error {
	opened, err := note.Open([]byte(raw), note.VerifierList(w.key))
	if isOfLogAlone(err) {
		return &Unwitnessed{Witness: w.key.Name()}
	}
	if err != nil {
		return refuse(0, "the checkpoint of %d records lacks the signature of the witness %s", n, w.key.Name())
	}
	signed, err := w.key.TimeOf(opened.Sigs[0])
	if err != nil {
		return refuse(0, "the checkpoint of %d records: %v", n, err)
	}
	if old := w.now().Sub(signed); old > w.age || old < -witnessAhead {
		return &Stale{Witness: w.key.Name(), Old: old, Most: w.age}
	}
	return nil
}

// isOfLogAlone reports whether err is about a checkpoint without signatures beside that of its log, whose
// name is the first line.
func isOfLogAlone(err error) bool {
	var unknown *note.UnverifiedNoteError
	if !errors.As(err, &unknown) {
		return false
	}
	log, _, _ := strings.Cut(unknown.Note.Text, "\n")
	return !slices.ContainsFunc(unknown.Note.UnverifiedSigs, func(s note.Signature) bool { return s.Name != log })
}
