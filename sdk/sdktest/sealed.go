package sdktest

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// vault opens keys that clients sealed, of every epoch.
type vault struct {
	epochs []*format.VaultSecret // of epoch 1, 2, …; nil = ended
}

func newVault(f Flavour) *vault {
	if f != Ours {
		return nil
	}
	v := &vault{}
	v.next()
	return v
}

// next begins another epoch.
func (v *vault) next() {
	seed := sha256.Sum256([]byte{byte(len(v.epochs))})
	secret, err := format.NewVaultSecret(seed[:])
	if err != nil {
		panic(err)
	}
	v.epochs = append(v.epochs, secret)
}

// vaultKey is the key that the capabilities show, nil for none.
func (s *state) vaultKey() *wire.VaultKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.vault == nil {
		return nil
	}
	k := &wire.VaultKey{Epoch: int64(len(s.vault.epochs)), KEM: format.SealedKeyKEM, NotAfter: time.Now().Add(90 * 24 * time.Hour).Unix()}
	s.log.SignVault(k, s.vault.epochs[k.Epoch-1].Public())
	return k
}

// SignVault puts a public key into k and signs it.
func (l *Log) SignVault(k *wire.VaultKey, public []byte) {
	text := chain.VaultKey{Origin: l.origin, Epoch: k.Epoch, KEM: k.KEM, Public: public, NotAfter: k.NotAfter}.Text()
	k.PublicKey, k.Signature = encode64(public), encode64(ed25519.Sign(l.key, text))
}

// NextEpoch begins another epoch of the vault. With end the earlier ones end at once.
func (s *Server) NextEpoch(end bool) {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	if end {
		clear(s.state.vault.epochs)
	}
	s.state.vault.next()
}

// WithoutSealed makes the service one that takes no sealed uploads.
func (s *Server) WithoutSealed() {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	s.state.vault = nil
}

// spent is an upload that was recorded under its id, which is its account's own.
type spent struct {
	group, name, hash, blob string
	result                  *wire.FinalizeUploadResult
}

// ownID is an id of an account.
type ownID struct{ account, id string }

// putSealed records the upload of one frame.
func (s *state) putSealed(c call, id string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := bytes.NewReader(c.body)
	head, blob, err := readFrame(in, wire.MaxSealedBlob)
	if err != nil {
		return nil, err
	}
	if in.Len() > 0 || head.ID != id {
		return nil, refuse(http.StatusBadRequest, wire.CodeValidation, "another id, or more than one frame")
	}
	return s.recordSealed(c.account, head, blob)
}

// finalizeUploads records the uploads of many frames.
func (s *state) finalizeUploads(c call) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(c.body) > wire.MaxSealedBatchBytes {
		return nil, refuse(http.StatusRequestEntityTooLarge, wire.CodeTooLarge, "too long")
	}
	var heads []*wire.SealedHead
	var blobs [][]byte
	for in := bytes.NewReader(c.body); in.Len() > 0; {
		head, blob, err := readFrame(in, wire.SealedBatchBlob)
		if err != nil {
			return nil, err
		}
		heads, blobs = append(heads, head), append(blobs, blob)
	}
	if len(heads) == 0 || len(heads) > wire.MaxSealedBatch {
		return nil, refuse(http.StatusBadRequest, wire.CodeValidation, "want 1 to %d frames", wire.MaxSealedBatch)
	}
	out := wire.FinalizeUploadsResult{Uploads: make([]wire.SealedAnswer, len(heads))}
	for i, head := range heads {
		answer := wire.SealedAnswer{ID: head.ID}
		result, err := s.recordSealed(c.account, head, blobs[i])
		if e, ok := err.(*refusal); ok {
			answer.Error, answer.Status = &wire.Error{Error: e.text, Code: e.code}, e.status
		} else if err != nil {
			return nil, err
		}
		answer.Result = result
		out.Uploads[i] = answer
	}
	s.batches = append(s.batches, len(heads))
	return out, nil
}

func readFrame(in *bytes.Reader, most int64) (*wire.SealedHead, []byte, error) {
	head, err := wire.ReadFrameHead(in, most)
	if err != nil {
		return nil, nil, refuse(http.StatusBadRequest, wire.CodeValidation, "%v", err)
	}
	blob := make([]byte, head.BlobSize)
	if _, err := io.ReadFull(in, blob); err != nil || sha256.Sum256(blob) != head.Blob() {
		return nil, nil, refuse(http.StatusBadRequest, wire.CodeValidation, "the ciphertext is not the one of the head")
	}
	return head, blob, nil
}

// recordSealed records an upload once. The caller holds the lock.
func (s *state) recordSealed(account string, head *wire.SealedHead, blob []byte) (*wire.FinalizeUploadResult, error) {
	if before := s.spent[ownID{account, head.ID}]; before != nil {
		meta, _ := format.ParseMetadata(head.Format)
		if before.group != head.GroupID || before.name != meta.Filename || before.hash != head.FileHash || before.blob != head.BlobHash {
			return nil, refuse(http.StatusConflict, wire.CodeSpent, "the id was used for another upload")
		}
		return before.result, nil
	}
	if _, err := s.member(account, head.GroupID); err != nil {
		return nil, err
	}
	key, err := s.openKey(account, head.ID, head.Epoch, head.Blob(), head.Key())
	if err != nil {
		return nil, err
	}
	meta, err := format.ParseMetadata(head.Format)
	if err != nil || meta.Version != format.Version || meta.Filename == "" {
		return nil, refuse(http.StatusBadRequest, wire.CodeValidation, "format")
	}
	if head.Base != "" && head.Base != cmp.Or(s.newest(head.GroupID, meta.Filename), wire.NoBase) {
		return nil, refuse(http.StatusConflict, wire.CodeHead, "another version is the newest of the name")
	}
	fee, err := s.charge(account, "upload")
	if err != nil {
		return nil, err
	}
	f, err := s.record(&pending{account: account, group: head.GroupID, key: key.Bytes()}, wire.FinalizeUploadRequest{FileHash: head.FileHash, Format: head.Format}, blob, nil)
	if err != nil {
		return nil, err
	}
	out := &wire.FinalizeUploadResult{Location: f.row.IPFSHash, CID: f.row.IPFSHash, TransID: f.row.TransID, FileHash: head.FileHash, Seq: f.row.Seq, Time: *f.row.Timestamp, Fee: fee.String()}
	out.Record, out.Receipt = s.log.receipt()
	s.spent[ownID{account, head.ID}] = &spent{head.GroupID, meta.Filename, head.FileHash, head.BlobHash, out}
	return out, nil
}

// newest is the reference of the newest living version of a name, "" for none.
func (s *state) newest(group, name string) (ref string) {
	for _, f := range s.files {
		if f.row.GroupID == group && f.row.Deleted == nil && *f.row.Filename == name {
			ref = f.row.IPFSHash
		}
	}
	return ref
}

func (s *state) openKey(account, id string, epoch int64, blob [sha256.Size]byte, sealed []byte) (*format.Key, error) {
	if epoch < 1 || epoch > int64(len(s.vault.epochs)) || s.vault.epochs[epoch-1] == nil {
		return nil, refuse(http.StatusConflict, wire.CodeEpoch, "the epoch ended: seal the key again")
	}
	key, err := s.vault.epochs[epoch-1].OpenKey(format.SealedFor{Service: ContractID, Account: account, Upload: id, Epoch: epoch}, blob, sealed)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, wire.CodeValidation, "the sealed key does not open")
	}
	return key, nil
}

// openSealedKey gives an account the key of an upload of its own.
func (s *state) openSealedKey(c call, req wire.OpenSealedKeyRequest) (any, error) {
	if _, err := s.member(c.account, req.GroupID); err != nil {
		return nil, err
	}
	head := wire.SealedHead{SealedKey: req.SealedKey, BlobHash: req.BlobHash}
	key, err := s.openKey(c.account, req.ID, req.Epoch, head.Blob(), head.Key())
	if err != nil {
		return nil, err
	}
	return wire.OpenSealedKeyResult{Key: key.Base64()}, nil
}

// Batches returns how many uploads each finalize_uploads had.
func (s *Server) Batches() []int {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	return slices.Clone(s.state.batches)
}

// DisturbUploads puts a handler in front of every path that records files of format version 1,
// and nil removes it.
func (s *Server) DisturbUploads(between func(next http.Handler) http.Handler) {
	for _, path := range []string{wire.PathTools + wire.OpFinalizeUpload, wire.PathTools + wire.OpFinalizeUploads, wire.PathSealed + "*"} {
		s.Disturb(path, between)
	}
}

// NewHead is a request to record sealed uploads, one or many, with changed heads.
func NewHead(r *http.Request, change func(*wire.SealedHead)) *http.Request {
	var out []byte
	for {
		head, err := wire.ReadFrameHead(r.Body, wire.MaxSealedBlob)
		if err == io.EOF {
			break
		}
		if err != nil {
			panic(err) // the client's own frame
		}
		blob := make([]byte, head.BlobSize)
		if _, err := io.ReadFull(r.Body, blob); err != nil {
			panic(err)
		}
		change(head)
		if out, err = wire.AppendFrameHead(out, head); err != nil {
			panic(err)
		}
		out = append(out, blob...)
	}
	again := r.Clone(r.Context())
	again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(out)), int64(len(out))
	return again
}
