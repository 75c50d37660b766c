package files

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/faultpoint"
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Uploads of our own, see [wire.PathSealed]: the client chose the id and made the key. One transaction records
// everything. The id is spent from then on: the same upload again gives the first answer again, also after the file was
// deleted, and any other is refused.

// Vault tells of the vault: the key that clients seal file keys to, signed by the log, and its measurement.
func (f *Files) Vault(ctx context.Context) (*wire.Vault, error) {
	var e keys.Epoch
	var signature []byte
	err := f.store.Read(ctx, func(tx *store.Tx) (err error) {
		if e, err = f.keys.Epoch(ctx, tx, f.ledger.Now()); err != nil {
			return err
		}
		signature, err = f.log.SignEpoch(ctx, tx, vaultwire.Epoch{Number: e.Number, NotAfter: e.NotAfter.Unix()})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("publish the key of the vault: %w", err)
	}
	key := wire.VaultKey{Epoch: e.Number, KEM: format.SealedKeyKEM,
		PublicKey: base64.StdEncoding.EncodeToString(e.Public), NotAfter: e.NotAfter.Unix(),
		Signature: base64.StdEncoding.EncodeToString(signature)}
	return &wire.Vault{VaultKey: key, Sessions: true, Measurement: f.keys.Measurement(),
		Evidence: []wire.Evidence{{Kind: wire.EvidenceOperator}}}, nil
}

// Checksum returns what the checksum of a group is computed from.
func (f *Files) Checksum(ctx context.Context, g groups.Group) (c chain.GroupChecksum, err error) {
	err = f.store.Read(ctx, func(tx *store.Tx) error {
		e, err := f.keys.Epoch(ctx, tx, f.ledger.Now())
		c = chain.GroupChecksum{Measurement: f.keys.Measurement(), VaultKey: e.Public, Group: g.ID,
			KeyVersion: g.KeyVersion}
		return err
	})
	return c, err
}

// Frame is an upload with its content in memory.
type Frame struct {
	wire.SealedHead
	Key     keys.Incoming // none = SealedKey is opened
	Content []byte        // ciphertext
}

// SealedAnswer is the answer to one frame.
type SealedAnswer struct {
	Result wire.FinalizeUploadResult
	Err    error // of this frame alone
}

// sealed is an upload of our own on its way to its record.
type sealed struct {
	upload
	id   [wire.UploadIDBytes]byte
	sum  [sha256.Size]byte // that the ciphertext or the manifest must have
	tag  []byte            // of the save; nil = none was said
	head wire.SealedHead   // as it came: the key is sealed with it
	box  []byte            // the sealed key; nil = the key came with the upload

	invalid error // why it is refused by itself
	shut    error // why its key does not open: it is refused unless it is recorded
	unfit   error // why it is refused unless it is recorded: its parts do not make the file
	result  wire.FinalizeUploadResult
	refused error // why it was not recorded
	kept    bool  // a file owns the content now
}

// parseSealed checks what a head says by itself. key is that of the file, none for the one in the head.
func (f *Files) parseSealed(account string, head wire.SealedHead, key keys.Incoming) (s *sealed, err error) {
	s = &sealed{upload: upload{SealedHead: head, account: account, key: key, isSealed: key.IsNone()},
		head: head}
	if err := wire.CheckBounds(head); err != nil {
		return s, fault.Invalid(err)
	}
	if s.id, err = uploadID(head.ID); err != nil {
		return s, err
	}
	if s.sum, err = hashOf("blob_hash", head.BlobHash); err != nil {
		return s, err
	}
	if head.Tag != "" {
		tag, err := hashOf("tag", head.Tag)
		if err != nil {
			return s, err
		}
		s.tag = tag[:]
	}
	if key.IsNone() {
		if s.box, err = sealedKey(head.SealedKey); err != nil {
			return s, err
		}
	}
	if strings.ContainsRune(head.GroupID+head.From, 0) { // in PostgreSQL it would fail all frames
		return s, fault.New(wire.CodeValidation, "group_id or from holds a NUL character")
	}
	if s.FileHash = strings.ToLower(head.FileHash); !isHash(s.FileHash) && (s.FileHash != "" || s.From == "") {
		return s, noHash()
	}
	if err := checkSalt(s.Salt); err != nil {
		return s, err
	}
	if s.meta, err = parseMeta(s.Format, s.FileHash); err != nil {
		return s, err
	}
	if s.name = s.meta.Filename; s.name == "" || s.meta.Version != format.Version && !s.inBlocks() {
		return s, fault.New(wire.CodeValidation, "format: an upload has version %d or %d and a filename",
			format.Version, format.VersionBlocks)
	}
	if s.inBlocks() {
		return s, f.checkManifestHead(s)
	}
	return s, f.checkWholeHead(s)
}

// checkWholeHead checks what the head of an upload of format version 1 says by itself.
func (f *Files) checkWholeHead(s *sealed) error {
	most := min(f.config.MaxWholeBytes, wire.WholeFileBytes) + format.Overhead
	switch {
	case s.FileHash == "" || s.From != "":
		return fault.New(wire.CodeValidation, "from: only an upload of format version %d takes blocks over",
			format.VersionBlocks)
	case s.BlobSize > most:
		return fault.New(wire.CodeTooLarge, "file too large: at most %d bytes of ciphertext are accepted in one "+
			"request", most)
	case s.BlobSize < format.Overhead:
		return tooShort(s.BlobSize)
	}
	return nil
}

func uploadID(text string) (id [wire.UploadIDBytes]byte, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(id) || hex.EncodeToString(raw) != text {
		return id, fault.New(wire.CodeValidation, "id: want %d bytes in lower-case hex", len(id))
	}
	return [wire.UploadIDBytes]byte(raw), nil
}

// hashOf decodes a hash.
func hashOf(field, text string) (sum [sha256.Size]byte, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(sum) {
		return sum, fault.New(wire.CodeValidation, "%s must be 64-char hex (SHA-256)", field)
	}
	return [sha256.Size]byte(raw), nil
}

func sealedKey(text string) ([]byte, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != format.SealedKeyBytes {
		return nil, fault.New(wire.CodeValidation, "sealed_key: want %d bytes in standard base64",
			format.SealedKeyBytes)
	}
	return raw, nil
}

// PutSealed records an upload in one request; body is its ciphertext, or its manifest. key is that of the file, nil for
// the one that the head has sealed. What can be refused before a long body is read is. An upload that is recorded
// already gives its first answer again.
func (f *Files) PutSealed(ctx context.Context, by *auth.Session, head wire.SealedHead, key keys.Incoming,
	body io.Reader) (out wire.FinalizeUploadResult, err error) {
	s, err := f.parseSealed(by.Account, head, key)
	if err != nil {
		return out, err
	}
	if !s.inBlocks() && s.BlobSize <= wire.SealedBatchBlob {
		content := make([]byte, s.BlobSize)
		if _, err := io.ReadFull(body, content); err != nil {
			return out, cutContent(err)
		}
		answers, err := f.FinalizeSealed(ctx, by.Account, []Frame{{head, key, content}})
		if err != nil {
			return out, err
		}
		return answers[0].Result, answers[0].Err
	}
	if err := by.Look(ctx); err != nil {
		return out, err
	}
	if s.inBlocks() {
		return f.putManifest(ctx, s, body)
	}
	if err := f.config.Space.Room(s.BlobSize); err != nil {
		return out, err
	}
	keep, known, err := f.beforeBody(ctx, s)
	if err != nil || known {
		return s.result, cmp.Or(err, f.readAway(s, body))
	}
	if err := f.openKey(ctx, s); err != nil {
		return out, err
	}
	if err := f.coming.begin(s.BlobSize, keep...); err != nil {
		return out, err
	}
	defer f.coming.end(s.BlobSize, keep...)
	if s.at.Info, err = f.put(ctx, io.LimitReader(body, s.BlobSize), s.BlobSize); err != nil {
		return out, err
	}
	if s.at.Size != s.BlobSize || s.at.Sum != s.sum {
		f.discard(ctx, s.at.ID)
		return out, otherContent()
	}
	if err := f.recordAll(ctx, f.store, []*sealed{s}); err != nil {
		return out, err
	}
	return s.result, s.refused
}

// beforeBody looks at an upload before its body is read: known means that it is recorded, and the answer is its
// result. keep are the bounds of what may be kept.
func (f *Files) beforeBody(ctx context.Context, s *sealed) (keep []bound, known bool, err error) {
	err = f.store.Read(ctx, func(tx *store.Tx) (err error) {
		if s.result, known, err = f.spent(ctx, tx, s); err != nil || known {
			return err
		}
		if _, err := f.mayRecord(ctx, tx, &s.upload); err != nil {
			return err
		}
		byAccount, byGroup, err := f.stored(ctx, tx, s.account, s.GroupID)
		keep = keepBounds(s.account, s.GroupID, byAccount, byGroup)
		return err
	})
	return keep, known, err
}

// readAway reads a body of no use, or the client may see a broken connection instead of the answer.
func (f *Files) readAway(s *sealed, body io.Reader) error {
	_, err := io.CopyN(io.Discard, body, s.BlobSize)
	return cutContent(err)
}

func cutContent(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return otherContent()
	}
	return err
}

func otherContent() error {
	return fault.New(wire.CodeValidation, "the bytes are not those that blob_size and blob_hash name: send them again")
}

// announcedFrames is how many keys of frames are opened well within the time for which a
// commit waits: 0.1 ms each.
const announcedFrames = 8

// FinalizeSealed records frames of an account, in their order, in one transaction. The answers
// are in their order too. A frame that is refused does not stop the others. An error means that
// none was recorded, or that it is not known.
func (f *Files) FinalizeSealed(ctx context.Context, account string, frames []Frame) ([]SealedAnswer, error) {
	size, small := int64(0), true
	for _, frame := range frames {
		size += int64(len(frame.Content))
		small = small && frame.BlobSize <= f.config.SmallBytes
	}
	if err := f.config.Space.Room(size); err != nil {
		return nil, err
	}
	var write writer = f.store
	if small && len(frames) <= announcedFrames {
		announced := f.store.Announce()
		defer announced.End()
		write = announced
	}
	done, err := f.takeTurn(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]*sealed, len(frames))
	for i, frame := range frames {
		list[i] = f.openFrame(ctx, account, frame)
	}
	done()
	if err := f.storeFrames(ctx, list, frames); err != nil {
		return nil, err
	}
	if err := f.recordAll(ctx, write, list); err != nil {
		return nil, err
	}
	answers := make([]SealedAnswer, len(list))
	for i, s := range list {
		answers[i] = SealedAnswer{s.result, s.refused}
	}
	return answers, nil
}

// openFrame checks a frame by itself, and opens its key.
func (f *Files) openFrame(ctx context.Context, account string, frame Frame) *sealed {
	s, err := f.parseSealed(account, frame.SealedHead, frame.Key)
	switch {
	case err != nil:
		s.invalid = err
	case s.inBlocks():
		s.invalid = fault.New(wire.CodeValidation, "an upload of format version %d is recorded by a request of its own",
			format.VersionBlocks)
	case frame.BlobSize > wire.SealedBatchBlob:
		s.invalid = fault.New(wire.CodeTooLarge, "at most %d bytes of ciphertext are taken here: send the upload in "+
			"a request of its own", wire.SealedBatchBlob)
	case int64(len(frame.Content)) != s.BlobSize || sha256.Sum256(frame.Content) != s.sum:
		s.invalid = otherContent()
	default:
		// An upload that is recorded is answered even where its key opens no more.
		s.shut = f.openKey(ctx, s)
	}
	return s
}

// storeFrames brings the contents of frames to the file store, but for small ones.
func (f *Files) storeFrames(ctx context.Context, list []*sealed, frames []Frame) error {
	var workers errgroup.Group
	workers.SetLimit(releaseWorkers)
	for i, s := range list {
		if s.key.IsNone() {
			continue
		}
		if s.BlobSize <= f.config.SmallBytes {
			s.at = arrived{Info: blob.Info{Size: s.BlobSize, Sum: s.sum}, small: frames[i].Content}
			continue
		}
		workers.Go(func() (err error) {
			s.at.Info, err = f.put(ctx, bytes.NewReader(frames[i].Content), s.BlobSize)
			return err
		})
	}
	err := workers.Wait()
	if err != nil {
		f.discardUnused(ctx, list)
	}
	return err
}

// discardUnused removes the contents that no file owns. The sweep repeats it.
func (f *Files) discardUnused(ctx context.Context, list []*sealed) {
	var useless []string
	for _, s := range list {
		switch {
		case s.kept:
			useless = append(useless, s.useless...)
		case s.at.ID != "" && s.at.ID != s.ref:
			useless = append(useless, s.at.ID)
		}
	}
	f.release(ctx, useless)
}

// writer is the store, or a write that was announced to it.
type writer interface {
	Write(ctx context.Context, chains store.Chains, f func(*store.Tx) error) error
}

// recordAll records uploads in one transaction, or notes why one is refused. Their contents
// are stored; those without a key may be repetitions.
func (f *Files) recordAll(ctx context.Context, w writer, list []*sealed) error {
	asks := func() []store.Ask { return f.asksOf(list) }
	err := w.Write(ctx, chainsOf(list).Asking(asks), func(tx *store.Tx) error {
		for _, s := range list {
			if err := f.recordSealed(ctx, tx, s); err != nil {
				return err
			}
		}
		return nil
	})
	faultpoint.Hit("sealed.recorded")
	if err == nil || isRolledBack(err) {
		for _, s := range list {
			s.kept = s.kept && err == nil
		}
		f.discardUnused(ctx, list)
	}
	return err
}

// chainsOf are the chains of uploads that may be recorded.
func chainsOf(list []*sealed) (chains store.Chains) {
	for _, s := range list {
		if s.invalid == nil {
			chains = chains.And(ledger.In(s.GroupID, s.account))
		}
	}
	return chains
}

// recordSealed records one upload, or notes why it is refused. A refusal leaves no trace in the transaction. An error
// ends all.
func (f *Files) recordSealed(ctx context.Context, tx *store.Tx, s *sealed) error {
	s.kept = false
	if s.invalid != nil {
		s.refused = s.invalid
		return nil
	}
	result, known, err := f.spent(ctx, tx, s)
	if known {
		s.result, s.refused = result, nil
		return nil
	}
	if err == nil && s.key.IsNone() {
		s.result, s.refused = wire.FinalizeUploadResult{}, s.shut // not those of a run that was undone
		return nil
	}
	var g groups.Group
	if err == nil {
		err = s.unfit
	}
	if err == nil {
		g, err = f.mayRecord(ctx, tx, &s.upload)
	}
	var refused *fault.Error
	if s.refused = nil; errors.As(err, &refused) {
		s.refused = err
		return nil
	}
	if err != nil {
		return err
	}
	if err := f.spend(ctx, tx, s, g); err != nil {
		if errors.As(err, &refused) && refused.Code != wire.CodeUnavailable { // too late: there are changes
			err = errors.New("an upload was refused while it was recorded: " + refused.Text)
		}
		return err
	}
	s.kept = true
	return nil
}

// spend records an upload, and notes that its id is spent.
func (f *Files) spend(ctx context.Context, tx *store.Tx, s *sealed, g groups.Group) error {
	s.ref, s.useless = "", nil // of a transaction that was tried before
	r, err := f.record(ctx, tx, &s.upload, g)
	if err != nil {
		return err
	}
	if err := tx.Do(ctx, "note the id of the upload", "INSERT INTO spent_uploads (id, seq, tag) VALUES (?, ?, ?)",
		spentID(s.account, s.id), r.Seq, s.tag); err != nil {
		return err
	}
	receipt, err := f.log.Receipt(ctx, tx, r)
	s.result = answerOf(&r.Record, s.FileHash, receipt)
	return err
}

// openKey opens the sealed key of an upload.
func (f *Files) openKey(ctx context.Context, s *sealed) (err error) {
	if s.box != nil {
		s.key, err = f.openSealed(ctx, s.account, s.head, s.box)
	}
	return err
}

// openSealed opens a sealed key of an account.
func (f *Files) openSealed(ctx context.Context, account string, head wire.SealedHead, key []byte) (keys.Incoming,
	error) {
	opened, err := f.keys.OpenUpload(ctx, f.store, vaultwire.OpenSealed{Head: head.Bound(), Sealed: key,
		For: format.SealedFor{Service: f.config.ContractID, Account: account, Upload: head.ID, Epoch: head.Epoch}})
	switch {
	case errors.Is(err, vaultwire.ErrEpoch):
		return opened, endedEpoch(head.Epoch)
	case errors.Is(err, vaultwire.ErrSealed):
		return opened, fault.New(wire.CodeValidation,
			"sealed_key does not open: it was sealed for another account, id, epoch, head or ciphertext, or for "+
				"another service")
	}
	return opened, err
}

func endedEpoch(epoch int64) error {
	return fault.New(wire.CodeEpoch, "the key was sealed for epoch %d, which the service does not open: "+
		"seal it again for the key that %s shows", epoch, wire.PathCapabilities)
}
