package report

import (
	"bytes"
	"encoding/json"
	"iter"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

// ledgerRow is one line of ledger.jsonl.
type ledgerRow struct {
	Seq         sdk.Seq    `json:"seq"`
	Time        *time.Time `json:"time,omitempty"`
	Name        string     `json:"name,omitempty"`
	Size        *int64     `json:"size,omitempty"` // plaintext bytes
	ContentType string     `json:"content_type,omitempty"`
	Uploader    string     `json:"uploader"`
	Ref         string     `json:"ref"`
	Tx          string     `json:"tx"`
	SHA256      string     `json:"sha256,omitempty"` // absent = nobody knows it (W18)
	ChangedSeq  sdk.Seq    `json:"changed_seq,omitempty"`
	Deleted     *deletion  `json:"deleted,omitempty"`
}

type deletion struct {
	Time   *time.Time `json:"time,omitempty"`
	By     string     `json:"by"`
	Reason string     `json:"reason"`
}

// Ledger returns each record as a line of JSON.
func Ledger(records iter.Seq[*sdk.Entry]) []byte {
	text := bytes.NewBuffer([]byte{})
	enc := json.NewEncoder(text)
	for e := range records {
		_ = enc.Encode(rowOf(e)) // strings and numbers, into memory
	}
	return text.Bytes()
}

func rowOf(e *sdk.Entry) ledgerRow {
	row := ledgerRow{Seq: e.Seq, Time: knownTime(e.Time), Name: e.Name, ContentType: e.ContentType,
		Uploader: string(e.Uploader),
		Ref:      string(e.Ref), Tx: string(e.Tx), ChangedSeq: e.ChangedSeq}
	if e.Hash != (sdk.Digest{}) {
		row.SHA256 = e.Hash.String()
	}
	if e.Size != sdk.SizeUnknown {
		row.Size = &e.Size
	}
	if e.Deleted != nil {
		row.Deleted = &deletion{knownTime(e.Deleted.Time), string(e.Deleted.By), e.Deleted.Reason}
	}
	return row
}

func knownTime(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	utc := at.UTC()
	return &utc
}
