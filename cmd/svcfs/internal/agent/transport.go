package agent

import (
	"context"
	"errors"
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
	return &streams{mcp.IOTransport{Reader: in, Writer: out, MaxLineLength: maxLine}}
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
