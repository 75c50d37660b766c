package agent

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxLine = 4 << 20 // of a message from the agent, in bytes: base64 of maxPut, with room
	// lastAnswers is how long answers may take after the agent's last message.
	lastAnswers = 30 * time.Second
)

// Transport is the protocol over a pair of streams: one message a line, with a bound for what
// the agent sends. What was asked before the end of in is still answered.
func Transport(in io.ReadCloser, out io.WriteCloser) mcp.Transport {
	answers := &oneAtATime{WriteCloser: out}
	return &streams{mcp.IOTransport{Reader: &lines{in: bufio.NewReaderSize(in, 64<<10), closer: in, answers: answers},
		Writer: answers, MaxLineLength: maxLine}}
}

// oneAtATime is a stream of answers, each of which is one write.
type oneAtATime struct {
	mu sync.Mutex
	io.WriteCloser
}

func (o *oneAtATime) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.WriteCloser.Write(p)
}

// lines passes the lines on that are one message each, and refuses all others itself: the library would end the
// conversation.
type lines struct {
	in      *bufio.Reader
	closer  io.Closer
	answers io.Writer
	rest    []byte // of the line that is being read
}

// Close ends the stream.
func (l *lines) Close() error { return l.closer.Close() }

// Read reads what lines passes on.
func (l *lines) Read(p []byte) (n int, err error) {
	for len(l.rest) == 0 {
		if l.rest, err = l.next(); err != nil {
			return 0, err
		}
	}
	n = copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// next reads a line, and returns nothing if the line is refused, or empty.
func (l *lines) next() (line []byte, err error) {
	isLong := false
	for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull); {
		var part []byte
		part, err = l.in.ReadSlice('\n')
		if isLong = isLong || len(line)+len(part) > maxLine; isLong {
			line = nil
			continue
		}
		line = append(line, part...)
	}
	if isLong {
		return nil, l.refuse(jsonrpc.CodeInvalidRequest,
			fmt.Sprintf("the message is longer than %d MiB: svcfs put, or a mount, takes larger files", maxLine>>20))
	}
	if len(bytes.TrimSpace(line)) == 0 {
		return nil, err
	}
	if _, wrong := jsonrpc.DecodeMessage(line); wrong != nil {
		return nil, l.refuse(jsonrpc.CodeParseError,
			"the line is not one message of JSON-RPC 2.0: send one message in each line")
	}
	return line, nil // an error comes again
}

// refuse answers a line whose id is not known.
func (l *lines) refuse(code int, text string) error {
	_, err := fmt.Fprintf(l.answers, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`+"\n", code, text)
	return err
}

type streams struct{ mcp.IOTransport }

// Connect begins the conversation.
func (s *streams) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := s.IOTransport.Connect(ctx)
	return &answering{Connection: c, calls: make(map[jsonrpc.ID]bool), rest: make(chan struct{})}, err
}

// answering is a connection whose end is not seen before the calls are answered: the library
// drops answers that are late.
type answering struct {
	mcp.Connection

	mu    sync.Mutex
	calls map[jsonrpc.ID]bool // not answered yet
	ended bool
	rest  chan struct{} // closed once the other side has ended and no call is left
}

func (a *answering) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := a.Connection.Read(ctx)
	if call, is := m.(*jsonrpc.Request); is && err == nil && call.IsCall() {
		a.mu.Lock()
		a.calls[call.ID] = true
		a.mu.Unlock()
	}
	if errors.Is(err, io.EOF) {
		a.settle(func() { a.ended = true })
		select {
		case <-a.rest:
		case <-ctx.Done():
		case <-time.After(lastAnswers):
		}
	}
	return m, err
}

func (a *answering) Write(ctx context.Context, m jsonrpc.Message) error {
	err := a.Connection.Write(ctx, m)
	if answer, is := m.(*jsonrpc.Response); is {
		a.settle(func() { delete(a.calls, answer.ID) })
	}
	if err != nil { // nobody reads answers
		a.settle(func() { clear(a.calls) })
	}
	return err
}

// settle changes what is left, and ends the wait once nothing is.
func (a *answering) settle(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
	if !a.ended || len(a.calls) > 0 {
		return
	}
	select {
	case <-a.rest:
	default:
		close(a.rest)
	}
}
