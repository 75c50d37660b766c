package api

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// pacePiece is how much must pass within the time-out, in bytes: with the
// default about half a kilobyte a second.
const pacePiece = 16 << 10

// pace sets deadlines that move as long as bytes pass, and never beyond an end.
// Only the time in which the service waits for the client counts for them, not that
// in which it works.
type pace struct {
	set     func(time.Time) error
	timeout time.Duration
	end     time.Time     // zero = none
	n       int64         // bytes that passed
	due     int64         // the waiting is forgiven when n is there
	waited  time.Duration // since it was forgiven
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
	_ = p.set(at) // a writer of a test has none
}

type countedBody struct {
	io.ReadCloser
	pace  pace
	ended bool
}

const (
	// lateBody is how long the answer to somebody who is not signed in waits for what
	// is left of the request.
	lateBody = 300 * time.Millisecond
	// lateBytes is how much that may be, as in net/http.
	lateBytes = 256 << 10
)

// skip reads what is left of a body, if it is there, and reports whether that was
// all. net/http would wait for it as long as for any other.
func (b *countedBody) skip() bool {
	if b.ended {
		return true
	}
	_ = b.pace.set(time.Now().Add(lateBody))
	if _, err := io.CopyN(io.Discard, b.ReadCloser, lateBytes); errors.Is(err, io.EOF) {
		_ = b.pace.set(time.Time{})
		return true
	}
	_ = b.pace.set(time.Now()) // nobody reads the rest
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

// begin comes before the answer. A connection whose body did not come is closed
// after it: credentials are looked at before the body, and refused at once.
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

// forAccount takes the end away from an answer to an account.
func (w *countedWriter) forAccount() {
	if w.trace.account != "" {
		w.pace.end = time.Time{}
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// sendPiece is how much of a blob is handed to the kernel at once, in bytes. It
// is more than what fits into the kernel's buffers at a time, which saves calls.
const sendPiece = 1 << 20

// ReadFrom keeps sendfile for blobs: the file, or a file with a limit, goes on
// piece by piece in a form the net package knows.
func (w *countedWriter) ReadFrom(r io.Reader) (total int64, err error) {
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		limited = &io.LimitedReader{R: r, N: 1<<63 - 1}
	}
	if _, ok := limited.R.(*os.File); !ok || !w.plain {
		return io.Copy(struct{ io.Writer }{w}, limited)
	}
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

// send sends a piece of a file. Within each time-out as much must pass as
// elsewhere; whoever takes less stands still. sendfile has moved the file by what
// the kernel took, so that it can go on after a time-out.
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
