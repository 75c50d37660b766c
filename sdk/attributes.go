package sdk

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// attributesOf returns the attributes of a file from their canonical text, nil if there are
// none. Other members wrote the text, so anything may be in it: a text that no writer could
// have written counts as none, and so does a target that is not the content of the file.
func attributesOf(text string, e *Entry) *Attributes {
	if text == "" {
		return nil
	}
	a, err := format.ParseAttributes(text)
	if err != nil {
		return nil
	}
	if a.Target != "" && (e.ContentType != format.TypeSymlink || e.Hash != sha256.Sum256([]byte(a.Target))) {
		a.Target = ""
	}
	if a.IsZero() {
		return nil
	}
	return &a
}

// attributes returns the attributes of e, the zero value if there are none.
func (e *Entry) attributes() Attributes {
	if e.Attributes == nil {
		return Attributes{}
	}
	return *e.Attributes
}

func (e *Entry) isLink() bool { return e.attributes().Target != "" }

// attributesText returns the canonical text of attributes that the caller gave.
func attributesText(a Attributes) (string, error) {
	text, err := a.Text()
	switch {
	case errors.Is(err, format.ErrTooLarge):
		err = &Error{Op: "check attributes", Kind: ErrTooLarge, Err: err}
	case err != nil:
		err = &Error{Op: "check attributes", Kind: ErrInvalid, Err: err}
	}
	return text, err
}

// checkAttributes is attributesText for a file whose content has the hash content.
func checkAttributes(a Attributes, content Digest) (string, error) {
	text, err := attributesText(a)
	if err == nil && a.Target != "" && content != sha256.Sum256([]byte(a.Target)) {
		err = &Error{Op: "check attributes", Kind: ErrInvalid,
			Err: errors.New("the content of a symbolic link must be its target")}
	}
	return text, err
}

// useAttributes checks the attributes that the caller gave. The hosted service would not record
// them, so they are not sent there.
func (u *recording) useAttributes() error {
	text, err := checkAttributes(u.attrs, u.key.digest)
	if err == nil && u.isOurs {
		u.attributes, u.key.link = text, u.attrs.Target != ""
	}
	return err
}

// settle makes sure that an upload has the attributes of this attempt, although the service
// may have recorded those of an earlier one. Nothing can be lost to a file that was deleted
// meanwhile, or at a service that records attributes no more.
func (g Group) settle(ctx context.Context, ref Ref, a Attributes) error {
	_, err := g.SetAttributes(ctx, ref, a)
	if kind := KindOf(err); kind == ErrDeleted || kind == ErrUnsupported {
		return nil
	}
	return err
}

// settleFound is settle for a record that the ledger lists.
func (u *recording) settleFound(ctx context.Context, e *Entry) error {
	if e.attributes().Equal(u.attrs) {
		return nil
	}
	return u.c.Group(u.key.group).settle(ctx, e.Ref, u.attrs)
}

// SetAttributes records other attributes of a file, in place of all that were recorded.
// Content, name and reference stay, and the target of a symbolic link must. SetAttributes is
// free unless the operator set a price. The accounts of [Group.Delete] may call it; it needs
// the API key.
// The result is the file as [Group.List] lists it, without Tx. Attributes that the file has already leave no
// record; the result is then an entry without Ref. Errors: those of [Group.Rename],
// [ErrInvalid], [ErrTooLarge]. Only svcd has it.
func (g Group) SetAttributes(ctx context.Context, ref Ref, a Attributes) (Entry, error) {
	e, err := g.setAttributes(ctx, ref, a)
	return e, withCode(ErrNotAuthorized, wire.CodeUploaderOnly, g.c.wrap("set attributes", g.ID, ref, err))
}

func (g Group) setAttributes(ctx context.Context, ref Ref, a Attributes) (Entry, error) {
	text, err := attributesText(a)
	if err != nil {
		return Entry{}, err
	}
	var answer recorded
	after := g.c.memory.Group(string(g.ID)).Number
	request := wire.AttributesRequest{GroupID: string(g.ID), IPFSHash: string(ref),
		Attributes: json.RawMessage(cmp.Or(text, "{}"))}
	err = g.c.read(ctx, wire.OpSetAttributes, request, &answer) // repeated, it changes nothing
	if err != nil || len(answer.Records) == 0 {
		return Entry{}, err
	}
	return g.changedFile(ctx, after, answer.Recorded, func(r *chain.Record) bool {
		return r.Kind == EventAttributes && r.Ref == string(ref) && r.Tag(chain.TagAttributes) == text
	})
}
