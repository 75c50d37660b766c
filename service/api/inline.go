package api

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/files"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/space"
)

const (
	// maxInlineFile bounds a file that arrives as base64 inside JSON, in
	// plaintext bytes; larger ones use the raw transfer.
	maxInlineFile = 64 << 20
	// memoryInline is the largest file inside JSON, in bytes, that is answered from
	// memory; a larger one is sent as it is read.
	memoryInline = 256 << 10
	// spoolsPerAccount bounds the requests of an account with a file inside JSON that
	// are arriving on the disk.
	spoolsPerAccount = 64
	// inlineWait is how long a file that has come waits for memory.
	inlineWait = 10 * time.Second
)

// inlineCopies is how many copies of a request with a file are in memory while it is
// decoded.
const inlineCopies = 2

func (s *server) inlineLimit() int64 { return min(s.MaxWholeBytes, maxInlineFile) }

// contentBody reads a JSON request that may hold a file. A small request is read into
// memory. A larger one is received on the disk first and takes no memory while its
// client sends, stalls or leaves; complete ones are read into memory as the budget
// allows. A request must arrive within the life of its upload id.
func (s *server) contentBody(w http.ResponseWriter, r *http.Request, account string) ([]byte, error) {
	limit := int64(maxRequestBytes) + int64(base64.StdEncoding.EncodedLen(int(s.inlineLimit()+format.Overhead)))
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	if r.ContentLength >= 0 && r.ContentLength <= maxRequestBytes {
		if err := s.holdMemory(r, bodyCopies*r.ContentLength); err != nil {
			return nil, err
		}
		return body(w, r, maxRequestBytes)
	}
	return s.spooledBody(w, r, account, limit)
}

// spooledBody receives a request of at most limit bytes on the disk, and reads it into memory when all of it is there.
func (s *server) spooledBody(w http.ResponseWriter, r *http.Request, account string, limit int64) ([]byte, error) {
	release, ok := s.spools.Take(account)
	if !ok {
		return nil, &fault.Error{Code: wire.CodeUnavailable,
			Text: fmt.Sprintf("%d large files of the account are arriving inside JSON: try again in a moment, or use "+
				"the raw transfer",
				spoolsPerAccount), RetryAfter: 5 * time.Second}
	}
	defer release()
	if err := s.Space.Room(max(r.ContentLength, 0)); err != nil {
		return nil, err
	}
	arriving, err := s.Space.Begin(0) // only bytes that arrived count: a client that stalls keeps no room from others
	if err != nil {
		return nil, err
	}
	defer arriving.End()
	coming, end, err := s.Files.Spooled(r.Context(), account, arriving.Reader(http.MaxBytesReader(w, r.Body, limit)),
		limit)
	if err != nil {
		return nil, err
	}
	defer end()
	spool, err := s.newSpool()
	if err != nil {
		return nil, err
	}
	defer spool.Close()
	traceOf(r.Context()).until(time.Now().Add(files.UploadLife))
	n, err := io.Copy(spool, coming)
	if err != nil {
		return nil, noRoom(err)
	}
	if err := hold(r.Context(), s.memory.inline, account, inlineCopies*n, 0, inlineWait); err != nil {
		return nil, err
	}
	raw := make([]byte, n)
	if _, err := spool.ReadAt(raw, 0); err != nil {
		return nil, fmt.Errorf("read request from the disk: %w", err)
	}
	return wellFormed(raw)
}

// newSpool makes a file without a name, which is gone once it is closed.
func (s *server) newSpool() (*os.File, error) {
	f, err := os.CreateTemp(s.Spool, "")
	if err != nil {
		return nil, noRoom(fmt.Errorf("make a file for a request: %w", err))
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("make a file for a request: %w", err), f.Close())
	}
	return f, nil
}

// noRoom marks errors of a full disk.
func noRoom(err error) error {
	if space.IsFull(err) {
		return errors.Join(blob.ErrFull, err)
	}
	return err
}

// decodeFinalize returns the request and, if it holds one, the file, which is
// decoded as it is read.
func decodeFinalize(raw []byte) (req wire.FinalizeUploadRequest, data io.Reader, err error) {
	if err := decode(raw, &req); err != nil {
		return req, nil, err
	}
	if req.EncryptedData == "" {
		return req, nil, nil
	}
	data = &base64Reader{base64.NewDecoder(base64.StdEncoding.Strict(), strings.NewReader(req.EncryptedData))}
	req.EncryptedData = ""
	return req, data, nil
}

// base64Reader names the bad field when the text is not base64.
type base64Reader struct{ r io.Reader }

func (b *base64Reader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	var corrupt base64.CorruptInputError
	if errors.As(err, &corrupt) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fault.New(wire.CodeValidation, "encrypted_data is not standard base64")
	}
	return n, err
}

// checkInline refuses a file that is too large to be sent inside JSON, or compressed
// where the client does not say that it knows formats, before anything is charged.
func (s *server) checkInline(r *http.Request, file *files.Found) error {
	if file.Compressed && r.Header.Get(wire.HeaderWalletID) == "" {
		return fault.New(wire.CodeUnsupported, "this file is compressed, and nova-sdk-js 1.0.3 would return the "+
			"compressed bytes: nothing was charged; "+
			"use svcfs or a newer SDK; a client that reads format.compression says so with the header x-wallet-id or "+
			"\"transfer\":\"raw\"")
	}
	if file.Size > s.inlineLimit()+format.Overhead {
		return fault.New(wire.CodeTooLarge, "file too large to be sent inside JSON: at most %d bytes; ask with "+
			"\"transfer\":\"raw\"", s.inlineLimit())
	}
	return nil
}

// streamInline sends a large file inside JSON as it is read.
func (s *server) streamInline(w http.ResponseWriter, r *http.Request, req wire.PrepareRetrieveRequest,
	file *files.Found) error {
	done, err := s.turn(r.Context())
	if err != nil {
		return err
	}
	stored, content, err := s.Files.RetrieveOpened(r.Context(), file)
	done()
	if err != nil {
		return err
	}
	defer content.Close()
	s.Metrics.Retrieves.Inc()
	out := retrieved(req, stored)
	out.EncryptedB64 = rand.Text() // the place of the content: a text that no client can know
	parts := bytes.Split(resultOf(r, out), []byte(out.EncryptedB64))
	length := int64(len(parts)-1) * int64(base64.StdEncoding.EncodedLen(int(stored.BlobSize)))
	for _, part := range parts {
		length += int64(len(part))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
	if err := writeAround(w, parts, content, stored.BlobSize); err != nil {
		s.cutOff(r, "file", err)
	}
	return nil
}

// writeAround writes the parts, with content as base64 between them.
func writeAround(w io.Writer, parts [][]byte, content io.ReadSeeker, size int64) error {
	for i, part := range parts {
		if i > 0 {
			if _, err := content.Seek(0, io.SeekStart); err != nil {
				return err
			}
			buffered := bufio.NewWriterSize(w, pacePiece)
			encoder := base64.NewEncoder(base64.StdEncoding, buffered)
			if _, err := io.CopyN(encoder, content, size); err != nil {
				return err
			}
			if err := errors.Join(encoder.Close(), buffered.Flush()); err != nil {
				return err
			}
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// cutOff ends an answer whose status was sent: only a broken connection shows that the
// answer is incomplete.
func (s *server) cutOff(r *http.Request, what string, err error) {
	if r.Context().Err() == nil && !errors.Is(err, os.ErrDeadlineExceeded) { // else the client left, as it may
		s.Logger.Warn(what+" cut off", "request", ledger.RequestID(r.Context()), "cause", err.Error())
	}
	panic(http.ErrAbortHandler)
}
