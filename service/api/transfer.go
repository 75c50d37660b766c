package api

import (
	"bytes"
	"crypto/hmac"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/ledger"
)

// finalize records an upload, with the ciphertext inside the JSON or sent before.
func (s *server) finalize(w http.ResponseWriter, r *http.Request, account string) error {
	raw, err := s.contentBody(w, r, account)
	if err != nil {
		return err
	}
	req, data, err := decodeFinalize(raw)
	if err != nil {
		return err
	}
	out, err := s.Files.Finalize(r.Context(), account, req, data)
	if err != nil {
		return err
	}
	s.Metrics.Uploads.Inc()
	result(w, out)
	return nil
}

// retrieve hands out a key with the ciphertext, or with the address of it.
func (s *server) retrieve(w http.ResponseWriter, r *http.Request, by *auth.Session, read func(any) error) error {
	var req wire.PrepareRetrieveRequest
	if err := read(&req); err != nil {
		return err
	}
	file, err := s.Files.Find(r.Context(), by, req)
	if err != nil {
		return err
	}
	inlineUpTo := int64(wire.InlineBlobBytes)
	if req.Transfer != wire.TransferRaw {
		if err := s.checkInline(r, file); err != nil {
			return err
		}
		if inlineUpTo = file.Size; inlineUpTo > memoryInline {
			return s.streamInline(w, r, req, file)
		}
	}
	if err := s.holdMemory(r, retrieveCopies*inlineUpTo); err != nil {
		return err
	}
	stored, err := s.Files.Retrieve(r.Context(), file, inlineUpTo)
	if err != nil {
		return err
	}
	s.Metrics.Retrieves.Inc()
	out := retrieved(req, stored)
	if stored.InBlocks != nil {
		s.offerBlocks(by.Account, req, stored.InBlocks, &out)
		if req.FirstBytes > 0 && s.sendFirst(w, r, stored.InBlocks, req.FirstBytes, out) {
			return nil
		}
	} else if stored.Inline != nil {
		out.EncryptedB64 = base64.StdEncoding.EncodeToString(stored.Inline)
	} else {
		ticket := s.ticket(by.Account, req.GroupID, req.IPFSHash, false)
		out.DataURL, out.DataSize = wire.PathReadBlob+ticket, stored.BlobSize
	}
	writeRaw(w, http.StatusOK, resultOf(r, out))
	return nil
}

// retrieveCopies is how many copies of a small file are in memory while it is answered:
// as it is stored, and as text; or of a block.
const retrieveCopies = 7

func (s *server) putBlob(w http.ResponseWriter, r *http.Request, account string) error {
	if err := s.holdForBody(r, s.PutMemory(r.ContentLength)); err != nil {
		return err
	}
	if err := s.Files.PutBlob(r.Context(), account, r.PathValue("id"), r.Body, r.ContentLength); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// How long a ticket is good: for one transfer, and for the reads of an open file in blocks.
const (
	ticketLife       = 5 * time.Minute
	ticketLifeBlocks = 7 * 24 * time.Hour
)

// ticketBody is the content of a raw transfer ticket. A ticket is signed, and good only
// for its account, which signs in with each request.
type ticketBody struct {
	Account string `json:"a"`
	Group   string `json:"g"`
	Ref     string `json:"r"`
	Expires int64  `json:"e"` // s since the epoch
	Blocks  bool   `json:"b,omitempty"`
}

func (s *server) ticket(account, group, ref string, inBlocks bool) string {
	life := ticketLife
	if inBlocks {
		life = ticketLifeBlocks
	}
	raw, _ := json.Marshal(ticketBody{account, group, ref, s.Ledger.Now().Add(life).Unix(), inBlocks})
	return base64.RawURLEncoding.EncodeToString(raw) + "." +
		base64.RawURLEncoding.EncodeToString(s.Keys.SignTicket(raw))
}

func (s *server) openTicket(text, account string, inBlocks bool) (t ticketBody, err error) {
	body, mac, ok := strings.Cut(text, ".")
	raw, err1 := base64.RawURLEncoding.Strict().DecodeString(body)
	sum, err2 := base64.RawURLEncoding.Strict().DecodeString(mac)
	unknown := fault.New(wire.CodeFileNotFound, "transfer not found: ask prepare_retrieve for a new address")
	if !ok || errors.Join(err1, err2) != nil {
		return t, unknown
	}
	if !hmac.Equal(sum, s.Keys.SignTicket(raw)) || json.Unmarshal(raw, &t) != nil ||
		t.Account != account || t.Blocks != inBlocks || t.Expires < s.Ledger.Now().Unix() {
		return t, unknown
	}
	return t, nil
}

// getBlob streams ciphertext to the holder of a ticket, with ranges.
func (s *server) getBlob(w http.ResponseWriter, r *http.Request, account string) error {
	t, err := s.openTicket(r.PathValue("ticket"), account, false)
	if err != nil {
		return err
	}
	f, info, err := s.Files.OpenBlob(r.Context(), account, t.Group, t.Ref)
	if err != nil {
		return err
	}
	defer f.Close()
	oneRange(r)
	return s.serveContent(w, r, t, hex.EncodeToString(info.Sum[:]), info.Size, f)
}

// serveContent answers stored bytes, with one range. Where they cannot be read, the answer breaks off, and the
// reader finds the error when it asks for the rest; the file costs the reader nothing more until it was read.
func (s *server) serveContent(w http.ResponseWriter, r *http.Request, t ticketBody, etag string, size int64,
	content io.ReadSeeker) error {
	if s.Files.IsUnread(t.Account, t.Ref) {
		_, err := content.Seek(firstByte(r.Header.Get("Range"), size), io.SeekStart)
		if err = errors.Join(err, canRead(content)); isRefused(err) {
			return err
		} else if err != nil {
			return s.Files.CouldNotRead(t.Account, t.Ref, err)
		}
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", strconv.Quote(etag))
	http.ServeContent(w, r, "", time.Time{}, content)
	want, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64)
	if counted, ok := w.(*countedWriter); !ok || err != nil || r.Method != http.MethodGet || counted.pace.n >= want ||
		r.Context().Err() != nil {
		return nil
	}
	if err := canRead(content); err != nil && !isRefused(err) && r.Context().Err() == nil {
		_ = s.Files.CouldNotRead(t.Account, t.Ref, err) // the answer has begun
		s.Logger.Error("a file cannot be read: check the disk or the bucket, and run svcd verify --read-data",
			"request", ledger.RequestID(r.Context()), "ref", t.Ref, "cause", err.Error())
	}
	return nil
}

// isRefused reports that bytes are not given for another reason than that they cannot be read: the file was
// deleted, or the reader lost its right.
func isRefused(err error) bool {
	var told *fault.Error
	return errors.As(err, &told) && told.Code != wire.CodeBlobCorrupt
}

// canRead reads the next byte, if there is one.
func canRead(content io.Reader) error {
	var next [1]byte
	if _, err := content.Read(next[:]); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// oneRange has several ranges ignored, as RFC 9110 section 14.2 lets a server do: each would
// be a request to the bucket.
func oneRange(r *http.Request) {
	if strings.Contains(r.Header.Get("Range"), ",") {
		r.Header.Del("Range")
	}
}

// retrieved is the answer of a retrieval, without content.
func retrieved(req wire.PrepareRetrieveRequest, stored files.Stored) wire.PrepareRetrieveResult {
	out := wire.PrepareRetrieveResult{SealedKey: stored.Key.Sealed, IPFSHash: req.IPFSHash, Location: req.IPFSHash,
		GroupID: req.GroupID, Format: stored.Format, Fee: stored.Fee.String()}
	if stored.Key.Clear != nil {
		out.Key = stored.Key.Clear.Base64()
	}
	return out
}

// resultOf encodes the answer of a retrieval for the generation that asks.
func resultOf(r *http.Request, out wire.PrepareRetrieveResult) []byte {
	raw, _ := json.Marshal(out)                  // strings and JSON that was stored
	if r.Header.Get(wire.HeaderWalletID) != "" { // every SDK from 1.1.1 on: the ciphertext once
		return bytes.Join([][]byte{[]byte(`{"result":`), raw, []byte("}")}, nil)
	}
	return bytes.Join(bothForms(raw), nil)
}
