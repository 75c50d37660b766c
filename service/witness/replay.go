package witness

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/vaultwire"
)

const (
	// ReplayPath is where a log sends its records to a witness that replays: a [Replay] in JSON.
	ReplayPath = "/replay"
	maxReplay  = vaultwire.MaxFrameBytes // bytes of a Replay
	// mostReplays is how many are followed at once, each in some 3 MiB.
	mostReplays = 4
	markHeader  = "Svcfs-Replayed" // of a request at Path: the mark of the checkpoint's tree

	replayedLine = "replayed\n" // the last line of latestFile, where the records gave the checkpoint
)

// Replay asks a witness for the mark of a tree: its word that the records lead there from another one. So the log
// carries what the witness computed, and the witness keeps nothing until it signs: whoever else sends it records gets
// in nobody's way, and it may be started anew in between.
type Replay struct {
	// Base is the tree that the witness signed last because its records gave it, else [vaultwire.NoRecords].
	Base vaultwire.Tree
	// From is a tree to which records lead from Base, with its edge, and Mark the witness's word for it, "" for Base.
	From vaultwire.Extension
	Mark string
	// Next are records that follow.
	Next vaultwire.Extension
}

func marksKey(seed []byte) []byte {
	sum := hmac.New(sha256.New, seed)
	sum.Write([]byte("svcfs marks of replayed trees 1"))
	return sum.Sum(nil)
}

// mark is the witness's word that it followed the records from one tree to another.
func (w *Witness) mark(from, to vaultwire.Tree) string {
	sum := hmac.New(sha256.New, w.marks)
	for _, t := range []vaultwire.Tree{from, to} {
		fmt.Fprintf(sum, "%d %x %x\n", t.Records, t.Root, t.Chains)
	}
	return base64.StdEncoding.EncodeToString(sum.Sum(nil))
}

// isMarked reports whether the records lead from one tree to another.
func (w *Witness) isMarked(from, to vaultwire.Tree, mark string) bool {
	return to == from || hmac.Equal([]byte(mark), []byte(w.mark(from, to)))
}

// replay follows the records of a [Replay], and returns the mark of the tree that they lead to.
func (w *Witness) replay(request []byte) (mark string, err error) {
	var q Replay
	if err := json.Unmarshal(request, &q); err != nil {
		return "", refuse(http.StatusBadRequest, "the records cannot be read, maybe they were cut: send them again: %v",
			err)
	}
	if !w.isMarked(q.Base, q.From.Tree, q.Mark) {
		return "", refuse(http.StatusForbidden, "the mark of the tree of %d records is not of this witness: send the "+
			"records behind the checkpoint that it signed last", q.From.Tree.Records)
	}
	log, _, err := vaultwire.Log{}.Extended(q.From)
	if err == nil {
		q.Next.Edge = nil // nothing is believed
		log, _, err = log.Extended(q.Next)
	}
	if err != nil {
		return "", refuse(http.StatusUnprocessableEntity, "the records behind number %d are not those of the tree "+
			"of %d: see with svcd audit which is wrong: %v", q.From.Tree.Records, q.Next.Tree.Records, err)
	}
	return w.mark(q.Base, log.Tree), nil
}

// follows checks that a checkpoint follows from its records.
func (w *Witness) follows(before kept, text string, now tlog.Tree, mark string) error {
	to, err := chainsTree(text, now)
	if err != nil {
		return refuse(http.StatusUnprocessableEntity, "%v", err)
	}
	from := vaultwire.NoRecords()
	if before.isReplayed {
		if from, err = chainsTree(before.text, before.Tree); err != nil {
			return fmt.Errorf("the checkpoint signed last is damaged: %w", err)
		}
	}
	if !w.isMarked(from, to, mark) {
		return &Refusal{Status: http.StatusPreconditionRequired, Size: from.Records, Text: "this witness replays: " +
			"send it the records behind that number first, as svcd does, or ask its operator for one without --replay"}
	}
	return nil
}

// chainsTree is the tree of a checkpoint with the root of the tree of chains.
func chainsTree(text string, t tlog.Tree) (vaultwire.Tree, error) {
	line, ok := strings.CutPrefix(strings.Split(text, "\n")[3], wire.ChainsLine)
	chains, err := tlog.ParseHash(line)
	if !ok || err != nil {
		return vaultwire.Tree{}, errors.New("the checkpoint has no root of chains: this log needs a witness " +
			"without --replay")
	}
	return vaultwire.Tree{Records: t.N, Root: chain.Hash(t.Hash), Chains: chain.Hash(chains)}, nil
}
