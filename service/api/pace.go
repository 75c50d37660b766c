package api

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// pacePiece is how many bytes must pass within the time-out: with the default about half
// a kilobyte a second.
const pacePiece = 16 << 10

// pace sets deadlines that move as long as bytes pass, and never beyond an end. Only the
// time in which the service waits for the client counts, not the time in which the
// service works.
type pace struct {
	set     func(time.Time) error
	timeout time.Duration
	end     time.Time     // zero = none
	n       int64         // bytes that passed
	due     int64         // waited starts again once n reaches it
	waited  time.Duration // since it started again
	began   time.Time
}

func (s *server) pace(set func(time.Time) error) pace {
	return pace{set: set, timeout: s.ClientTimeout}
}

// begin is called before some bytes pass, passed after.
func (p *pace) begin() {
	if p.n >= p.due {
		p.waited, p.due = 0, p.n+pacePiece
	}
	p.began = time.Now()
	p.deadline(p.timeout - p.waited)
}

func (p *pace) passed(n int64) {
	p.n += n
	p.waited += time.Since(p.began)
}

func (p *pace) deadline(in time.Duration) {
	if p.timeout <= 0 {
		return
	}
	at := time.Now().Add(in)
	if !p.end.IsZero() && at.After(p.end) {
		at = p.end
	}
	_ = p.set(at) // the writer of a test has no deadline
}

type countedBody struct {
	io.ReadCloser
	pace  pace
	ended bool
}

const (
	// lateBody is how long the answer to a client that is not signed in waits for the
	// rest of the request.
	lateBody = 300 * time.Millisecond
	// lateBytes bounds that rest, as in net/http.
	lateBytes = 256 << 10
)

// skip reads the rest of a body that has already arrived, and reports whether that was
// all. net/http would wait for it as long as for any body.
func (b *countedBody) skip() bool {
	if b.ended {
		return true
	}
	_ = b.pace.set(time.Now().Add(lateBody))
	if _, err := io.CopyN(io.Discard, b.ReadCloser, lateBytes); errors.Is(err, io.EOF) {
		_ = b.pace.set(time.Time{})
		return true
	}
	_ = b.pace.set(time.Now()) // the rest is not read
	return false
}

func (b *countedBody) Read(p []byte) (int, error) {
	b.pace.begin()
	n, err := b.ReadCloser.Read(p)
	b.pace.passed(int64(n))
	b.ended = b.ended || errors.Is(err, io.EOF)
	if err != nil {
		_ = b.pace.set(time.Time{}) // or the wait for the end of the connection would end the request
	}
	return n, err
}

type countedWriter struct {
	http.ResponseWriter
	status int
	trace  *trace
	plain  bool // no TLS: files go from the disk to the connection
	body   *countedBody
	old    bool // HTTP/1, with a body that must be read before the next request
	begun  bool
	closes bool // the connection, for the body was not read
	pace   pace
}

// begin is called before the answer. Credentials are checked before the body is read. A
// connection whose body has not come is closed after the answer.
func (w *countedWriter) begin() {
	if w.begun {
		return
	}
	w.begun = true
	if w.old && w.trace.account == "" && !w.body.skip() {
		w.closes = true
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w.ResponseWriter).EnableFullDuplex() // the answer does not wait for the body
	}
}

func (w *countedWriter) WriteHeader(status int) {
	w.begin()
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write sends p in pieces, so that a long answer may take long, to an account that
// is signed in.
func (w *countedWriter) Write(p []byte) (total int, err error) {
	w.begin()
	w.forAccount()
	for {
		piece := p[total:min(len(p), total+pacePiece)]
		w.pace.begin()
		n, err := w.ResponseWriter.Write(piece)
		w.pace.passed(int64(n))
		total += n
		if err != nil || total == len(p) {
			return total, err
		}
	}
}

// forAccount removes the end of an answer to an account.
func (w *countedWriter) forAccount() {
	if w.trace.account != "" {
		w.pace.end = time.Time{}
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// sendPiece is how many bytes of a blob one call hands to the kernel. The kernel's
// buffers hold less, so larger pieces save calls.
const sendPiece = 1 << 20

// fromFiles is a reader of content that lies in files one after the other, or elsewhere.
type fromFiles interface {
	io.Reader
	// Next returns the file that the next bytes are read from, where it stands, and how many they
	// are; nil if they do not lie in a file, or are over.
	Next() (f *os.File, bytes int64, err error)
	// Passed tells that so many of them were read from the file.
	Passed(bytes int64) error
}

// ReadFrom keeps sendfile for blobs: it hands on a file, a file with a limit, or files one after
// the other, piece by piece in a form that the net package knows.
func (w *countedWriter) ReadFrom(r io.Reader) (total int64, err error) {
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		limited = &io.LimitedReader{R: r, N: 1<<63 - 1}
	}
	if files, ok := limited.R.(fromFiles); ok && w.plain {
		return w.sendFiles(files, limited)
	}
	if _, ok := limited.R.(*os.File); !ok || !w.plain {
		return io.Copy(struct{ io.Writer }{w}, limited)
	}
	return w.sendFile(limited)
}

// sendFiles sends what lies in files, and copies the rest.
func (w *countedWriter) sendFiles(r fromFiles, limited *io.LimitedReader) (total int64, err error) {
	for limited.N > 0 {
		f, left, err := r.Next()
		if err != nil {
			return total, err
		}
		if f == nil {
			n, err := io.Copy(struct{ io.Writer }{w}, limited)
			return total + n, err
		}
		want := min(limited.N, left)
		n, err := w.sendFile(&io.LimitedReader{R: f, N: want})
		total += n
		limited.N -= n
		if err = errors.Join(err, r.Passed(n)); err == nil && n < want {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// sendFile sends a file with a limit.
func (w *countedWriter) sendFile(limited *io.LimitedReader) (total int64, err error) {
	w.begin()
	w.forAccount()
	for limited.N > 0 {
		piece := &io.LimitedReader{R: limited.R, N: min(limited.N, sendPiece)}
		want := piece.N
		n, err := w.send(piece)
		total += n
		limited.N -= n
		if err != nil || n < want {
			return total, err
		}
	}
	return total, nil
}

// send sends a piece of a file. A client that takes less than pacePiece within a
// time-out stands still. After a time-out sendfile has moved the file by the bytes that
// the kernel took, so sending can continue.
func (w *countedWriter) send(piece *io.LimitedReader) (total int64, err error) {
	for {
		w.pace.deadline(w.pace.timeout)
		n, err := io.Copy(w.ResponseWriter, piece)
		total += n
		w.pace.n += n
		if !errors.Is(err, os.ErrDeadlineExceeded) || n < pacePiece {
			return total, err
		}
	}
}
