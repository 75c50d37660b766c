package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/ledger"
)

// Uploads in one request, see [wire.PathSealed].

// smallFrame is how long a frame is, in bytes, whose content surely lies in the database.
const smallFrame = files.SmallBytes

// putSealed records an upload in one request. The account is checked in its transaction: of one that is not in memory
// before anything is kept also before that.
func (s *server) putSealed(w http.ResponseWriter, r *http.Request) error {
	by, err := s.unchecked(r)
	if err == nil && (r.ContentLength < 0 || r.ContentLength > smallFrame) {
		err = by.Look(r.Context())
	}
	if err != nil {
		return err
	}
	return s.putFrame(w, r, by, func(raw []byte) (head wire.SealedHead, key keys.Incoming, err error) {
		err = decodeTypes(raw, &head)
		return head, key, err
	})
}

// plainHead is the head of an upload whose key came with it.
type plainHead struct {
	wire.SealedHead
	Key string `json:"key"` // standard base64
}

// putPlain records an upload of the account page, which sends the key of the file as it gets those of others: in the
// session.
func (s *server) putPlain(w http.ResponseWriter, r *http.Request, account string) error {
	return s.putFrame(w, r, auth.Checked(account), func(raw []byte) (wire.SealedHead, keys.Incoming, error) {
		var head plainHead
		var key keys.Incoming
		if err := decodeTypes(raw, &head); err != nil {
			return head.SealedHead, key, err
		}
		clear, err := format.ParseKey(head.Key)
		if err != nil {
			return head.SealedHead, key, fault.New(wire.CodeValidation, "key: want %d bytes in standard base64",
				format.KeyBytes)
		}
		if head.Base == "" {
			return head.SealedHead, key, fault.New(wire.CodeValidation,
				"Required: base, the version that the upload follows, or %q", wire.NoBase)
		}
		return head.SealedHead, keys.InClear(clear), nil
	})
}

// putFrame records an upload whose head parse reads.
func (s *server) putFrame(w http.ResponseWriter, r *http.Request, by *auth.Session,
	parse func([]byte) (wire.SealedHead, keys.Incoming, error)) error {
	size := r.ContentLength
	if size < 0 {
		return fault.New(wire.CodeValidation, "Required: Content-Length, the length of the frame")
	}
	need := bodyCopies * min(size, wire.MaxSealedHead+wire.SealedBatchBlob) // a small one is in memory
	if size > smallFrame {
		need += s.PutMemory(size)
	}
	if err := s.holdForBody(r, need); err != nil {
		return err
	}
	raw, length, err := readHead(r.Body, size)
	if err != nil {
		return err
	}
	head, key, err := parse(raw)
	if err != nil {
		return err
	}
	switch {
	case head.ID != r.PathValue("id"):
		return fault.New(wire.CodeValidation, "the id in the address is not that of the frame")
	case size != length+head.BlobSize:
		return fault.New(wire.CodeValidation, "Content-Length: want %d, the length of the frame", length+head.BlobSize)
	}
	out, err := s.Files.PutSealed(r.Context(), by, head, key, r.Body)
	if err != nil {
		return err
	}
	s.Metrics.Uploads.Inc()
	if meta, err := format.ParseMetadata(head.Format); err == nil && meta.Version == format.VersionBlocks &&
		out.Record != nil {
		ticket := s.ticket(by.Account, out.Record.GroupID, out.Location, true)
		out.DataURL, out.TilesURL = wire.PathBlocks+ticket, wire.PathTiles+ticket
	}
	resultAlone(w, out)
	return nil
}

// batchCopies is how many copies of frames are in memory while they are recorded.
const batchCopies = 2

// finalizeUploads records many uploads, one frame after the other in the request.
func (s *server) finalizeUploads(w http.ResponseWriter, r *http.Request, account string) error {
	if r.ContentLength > wire.MaxSealedBatchBytes {
		return &http.MaxBytesError{Limit: wire.MaxSealedBatchBytes}
	}
	size := r.ContentLength
	if size < 0 { // not known
		size = wire.MaxSealedBatchBytes
	}
	if err := s.holdForBody(r, batchCopies*size); err != nil {
		return err
	}
	var all bytes.Buffer
	all.Grow(int(max(r.ContentLength, 0)) + bytes.MinRead)
	if _, err := all.ReadFrom(http.MaxBytesReader(w, r.Body, wire.MaxSealedBatchBytes)); err != nil {
		return err
	}
	frames, err := splitFrames(all.Bytes())
	if err != nil {
		return err
	}
	s.limits.Charge(account, len(frames)-1) // as if each had come alone
	answers, err := s.Files.FinalizeSealed(r.Context(), account, frames)
	if err != nil {
		return err
	}
	out := wire.FinalizeUploadsResult{Uploads: make([]wire.SealedAnswer, len(answers))}
	for i, a := range answers {
		out.Uploads[i] = s.sealedAnswer(r, frames[i].ID, a)
	}
	resultAlone(w, out)
	return nil
}

// sealedAnswer is the answer to one frame.
func (s *server) sealedAnswer(r *http.Request, id string, a files.SealedAnswer) wire.SealedAnswer {
	out := wire.SealedAnswer{ID: id}
	if a.Err == nil {
		s.Metrics.Uploads.Inc()
		out.Result = &a.Result
		return out
	}
	e, _ := refusal(a.Err)
	if e.Err != nil {
		s.Logger.Error("failed", "request", ledger.RequestID(r.Context()), "code", e.Code, "cause", e.Err.Error())
	}
	out.Error, out.Status = &wire.Error{Error: e.Text, Code: e.Code}, e.Status()
	return out
}

// splitFrames splits a request into frames, whose contents lie in it.
func splitFrames(all []byte) (frames []files.Frame, err error) {
	for rest := bytes.NewReader(all); rest.Len() > 0; {
		if len(frames) == wire.MaxSealedBatch {
			return nil, fault.New(wire.CodeTooLarge, "at most %d uploads are recorded by one request",
				wire.MaxSealedBatch)
		}
		raw, _, err := readHead(rest, int64(rest.Len()))
		if err != nil {
			return nil, err
		}
		var head wire.SealedHead
		if err := decodeTypes(raw, &head); err != nil { // a head that is too long is refused alone
			return nil, err
		}
		if head.BlobSize < 0 || head.BlobSize > int64(rest.Len()) {
			return nil, fault.New(wire.CodeValidation, "a frame ends before its content does")
		}
		at := len(all) - rest.Len()
		frames = append(frames, files.Frame{SealedHead: head, Content: all[at : at+int(head.BlobSize)]})
		_, _ = rest.Seek(head.BlobSize, io.SeekCurrent)
	}
	if len(frames) == 0 {
		return nil, fault.New(wire.CodeValidation, "Required: 1 to %d frames", wire.MaxSealedBatch)
	}
	return frames, nil
}

// readHead reads the JSON of the head of a frame, of which so many bytes come, and returns the bytes that were
// read.
func readHead(r io.Reader, coming int64) (raw []byte, size int64, err error) {
	raw, size, err = wire.ReadRawFrameHead(r, coming)
	if errors.Is(err, wire.ErrFrame) {
		return nil, 0, &http.MaxBytesError{Limit: wire.MaxSealedHead}
	}
	if err != nil {
		return nil, 0, cutFrame(err)
	}
	if wire.DeeperThan(raw, maxDepth) {
		return nil, 0, fault.New(wire.CodeInvalidJSON, "the head of the frame is nested deeper than %d", maxDepth)
	}
	return raw, size, nil
}

// cutFrame is the refusal of a frame that ends too early; an error of the connection stays.
func cutFrame(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault.New(wire.CodeValidation, "the frame ends before its head does")
	}
	return err
}
