package service

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// connections bounds how many connections are open: at the limit the one that
// has been idle longest is closed for a new one, and when none is idle the new
// one is. Clients that hold many open and say nothing lock nobody out.
type connections struct {
	max int

	mu   sync.Mutex
	all  map[net.Conn]*list.Element // nil while it is busy
	idle *list.List                 // of net.Conn, the longest first
}

func newConnections(limit int) *connections {
	return &connections{max: limit, all: make(map[net.Conn]*list.Element), idle: list.New()}
}

// changed is the server's ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if surplus := c.note(conn, state); surplus != nil {
		_ = surplus.Close() // the server notices and forgets it
	}
}

// note keeps the books and returns a connection to close, or nil.
func (c *connections) note(conn net.Conn, state http.ConnState) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if place := c.all[conn]; place != nil {
		c.idle.Remove(place)
	}
	switch state {
	case http.StateNew, http.StateIdle:
		c.all[conn] = c.idle.PushBack(conn)
	case http.StateActive:
		c.all[conn] = nil
	default: // closed or taken over
		delete(c.all, conn)
	}
	if len(c.all) <= c.max {
		return nil
	}
	surplus := conn
	if first := c.idle.Front(); first != nil {
		surplus = c.idle.Remove(first).(net.Conn)
	}
	delete(c.all, surplus)
	return surplus
}
