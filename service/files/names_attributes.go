package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// attributesOf reads attributes as a client sends them.
func attributesOf(raw string) (a format.Attributes, text string, err error) {
	if a, err = format.ParseAttributes(raw); err == nil {
		text, err = a.Text()
	}
	if err != nil {
		return a, "", fault.New(wire.CodeValidation, "attributes are not understood: %s", reason(err))
	}
	return a, text, nil
}

// uploadAttributes returns the canonical text of the attributes of an upload. It refuses a
// symbolic link whose content is not its target: other clients would show another target.
func uploadAttributes(meta format.Metadata, fileHash string) (string, error) {
	a, text, err := attributesOf(meta.Attributes)
	if err != nil {
		return "", err
	}
	isLink := meta.ContentType == format.TypeSymlink
	sum := sha256.Sum256([]byte(a.Target))
	switch {
	case isLink != (a.Target != ""):
		return "", fault.New(wire.CodeValidation, "a symbolic link needs both: attributes with a target, and the "+
			"content_type %s", format.TypeSymlink)
	case isLink && hex.EncodeToString(sum[:]) != fileHash:
		return "", fault.New(wire.CodeValidation, "the content of a symbolic link must be its target")
	case isLink && meta.OriginalSize != format.SizeUnknown && meta.OriginalSize != int64(len(a.Target)):
		return "", fault.New(wire.CodeValidation, "original_size of a symbolic link must be the length of its "+
			"target, %d", len(a.Target))
	}
	return text, nil
}

// SetAttributes records other attributes of a file, in place of all that were recorded;
// name, reference and content stay, and so does the target of a symbolic link. Only the
// accounts of [Files.Rename] may change them. Attributes that a file has already leave no
// record.
func (f *Files) SetAttributes(ctx context.Context, account string,
	req wire.AttributesRequest) (out Changed, err error) {
	if len(req.Attributes) == 0 {
		return out, fault.New(wire.CodeValidation, "Required: attributes")
	}
	a, text, err := attributesOf(string(req.Attributes))
	if err != nil {
		return out, err
	}
	err = f.store.Write(ctx, ledger.In(req.GroupID, account), func(tx *store.Tx) error {
		t, err := living(ctx, tx, account, req.GroupID, req.IPFSHash, "change the attributes of")
		if err != nil || t.attributes == text {
			return err
		}
		if before, err := format.ParseAttributes(t.attributes); err != nil || before.Target != a.Target {
			return fault.New(wire.CodeValidation,
				"the target of a symbolic link cannot change: upload another link")
		}
		t.attributes = text
		r, err := f.ledger.Charge(ctx, tx, chain.KindAttributes, chain.Record{Kind: chain.KindAttributes,
			Account: account, Group: t.group, Ref: t.ref, FileHash: t.hash, Tags: ledger.WithTags(t.namedTags(),
				t.nameTag())})
		if err != nil {
			return err
		}
		if err := tx.Do(ctx, "write attributes", "UPDATE files SET attributes = ?, changed_seq = ? WHERE ref = ?", text,
			r.Seq, t.ref); err != nil {
			return err
		}
		out.Recorded, err = f.answerOf(ctx, tx, step{r, t.seq})
		return err
	})
	out.Text = fmt.Sprintf("Set the attributes of '%s' in group '%s'", req.IPFSHash, req.GroupID)
	return out, err
}
