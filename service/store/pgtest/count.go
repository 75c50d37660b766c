package pgtest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
)

// readyForQuery is the message with which a server ends its answer to what a client sent and waits for (PostgreSQL
// manual, "Message Formats").
const readyForQuery = 'Z'

// Line is a way to a server that counts the round trips on it.
type Line struct {
	// URL is the address of the database over this line.
	URL   string
	trips atomic.Int64
}

// Trips returns how often a client waited for an answer of the server.
func (l *Line) Trips() int64 { return l.trips.Load() }

// NewLine makes a line to the database at an address of this package. It ends with the test.
func NewLine(t testing.TB, database string) *Line {
	t.Helper()
	address, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	server := address.Host
	address.Host = listener.Addr().String()
	l := &Line{URL: address.String()}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // the test ended
			}
			go l.carry(client, server)
		}
	}()
	return l
}

// carry connects a client to the server until one of them leaves.
func (l *Line) carry(client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	_ = l.answers(client, server)
}

// answers passes the messages of the server on.
func (l *Line) answers(client io.Writer, server io.Reader) error {
	head := make([]byte, 5) // type, and the length of the rest
	for {
		if _, err := io.ReadFull(server, head); err != nil {
			return err
		}
		if head[0] == readyForQuery {
			l.trips.Add(1)
		}
		rest := int64(binary.BigEndian.Uint32(head[1:])) - 4
		if _, err := client.Write(head); err != nil {
			return err
		}
		if n, err := io.CopyN(client, server, rest); err != nil || n != rest {
			return errors.Join(err, io.ErrUnexpectedEOF)
		}
	}
}
