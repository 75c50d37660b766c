package throttle

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// Connections bounds the open connections, in all and from one address. At a bound, a
// new connection takes the place of another: the one that has been idle longest, else,
// at the bound of all, the one that has been busy longest without a request of an
// account. Without such a connection the new one is refused. So clients that hold many
// connections and send little lock nobody out.
type Connections struct {
	most, perAddress int
	proxies          []netip.Prefix // not bounded by address, because many clients share a proxy

	mu        sync.Mutex
	all       map[net.Conn]*connection
	ofAddress map[netip.Addr]int
	idle      *list.List // of *connection, the longest first
	strangers *list.List // busy or new, without a request of an account; the longest first
}

// connection is one that is open.
type connection struct {
	net.Conn
	from     netip.Addr    // not valid = not bounded by address
	fresh    bool          // no byte has come yet
	signedIn int           // requests of accounts that are under way
	in       *list.List    // idle, strangers, or nil
	place    *list.Element // there
}

// NewConnections allows so many in all, and from an address that is not in proxies. The server that
// counts with it has Changed as ConnState and Context as ConnContext.
func NewConnections(most, perAddress int, proxies []netip.Prefix) *Connections {
	return &Connections{most: most, perAddress: perAddress, proxies: proxies, all: make(map[net.Conn]*connection),
		ofAddress: make(map[netip.Addr]int),
		idle:      list.New(), strangers: list.New()}
}

// connectionKey is where a request's context has its net.Conn.
type connectionKey struct{}

// unsentBytes is how much of an answer the kernel holds that it has not sent yet. By default that is
// megabytes: a client on a slow line would take minutes to make room for the next piece, and look
// as if it stood still.
const unsentBytes = 128 << 10

// Context is the server's ConnContext.
func (c *Connections) Context(ctx context.Context, conn net.Conn) context.Context {
	holdLittle(conn)
	return context.WithValue(ctx, connectionKey{}, conn)
}

func holdLittle(conn net.Conn) {
	if over, ok := conn.(*tls.Conn); ok {
		conn = over.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			//#nosec G115 -- a descriptor; without it only slow lines suffer
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBytes)
		})
	}
}

// SignedIn notes that a request is one of an account, until end is called.
func (c *Connections) SignedIn(ctx context.Context) (end func()) {
	conn, _ := ctx.Value(connectionKey{}).(net.Conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.all[conn]
	if o == nil {
		return func() {}
	}
	if o.signedIn++; o.in == c.strangers {
		o.move(nil)
	}
	return func() { c.ended(o) }
}

func (c *Connections) ended(o *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.signedIn--; o.signedIn == 0 && o.in == nil && c.all[o.Conn] == o {
		o.move(c.strangers) // the rest of its body may not have come
	}
}

// Changed is the server's ConnState.
func (c *Connections) Changed(conn net.Conn, state http.ConnState) {
	if surplus := c.note(conn, state); surplus != nil {
		_ = surplus.Close() // the server notices and forgets it
	}
}

// note updates the lists and returns a connection to close, or nil.
func (c *Connections) note(conn net.Conn, state http.ConnState) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.all[conn]
	switch {
	case state == http.StateClosed || state == http.StateHijacked:
		if o != nil {
			c.forget(o)
		}
		return nil
	case o == nil && state != http.StateNew: // chosen to be closed
		return conn
	case o == nil:
		return c.add(conn)
	case state == http.StateIdle:
		o.move(c.idle)
	case o.signedIn > 0:
		o.move(nil)
	default:
		o.fresh = false
		o.move(c.strangers)
	}
	return nil
}

// add adds a new connection, and returns the connection to close for it, which may be
// the new one, or nil.
func (c *Connections) add(conn net.Conn) net.Conn {
	o := &connection{Conn: conn, fresh: true}
	if at, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil && !c.isProxy(at.Addr().Unmap()) {
		o.from = Network(at.Addr())
	}
	var surplus *connection
	switch {
	case o.from.IsValid() && c.ofAddress[o.from] >= c.perAddress:
		if surplus = c.silentOf(o.from); surplus == nil {
			return conn
		}
	case len(c.all) >= c.most:
		if surplus = c.longest(); surplus == nil {
			return conn
		}
	}
	if surplus != nil {
		c.forget(surplus)
	}
	c.all[conn] = o
	if o.from.IsValid() {
		c.ofAddress[o.from]++
	}
	o.move(c.strangers) // last in line: it has had no time to send anything
	if surplus == nil {
		return nil
	}
	return surplus.Conn
}

func (c *Connections) isProxy(a netip.Addr) bool {
	return contains(c.proxies, a)
}

// silentOf is the connection of an address that has been idle longest, else the oldest
// without any byte, or nil.
func (c *Connections) silentOf(from netip.Addr) *connection {
	for _, l := range []*list.List{c.idle, c.strangers} {
		for e := l.Front(); e != nil; e = e.Next() {
			if o := e.Value.(*connection); o.from == from && (o.fresh || l == c.idle) {
				return o
			}
		}
	}
	return nil
}

// longest is the first connection to close for others, or nil.
func (c *Connections) longest() *connection {
	for _, l := range []*list.List{c.idle, c.strangers} {
		if first := l.Front(); first != nil {
			return first.Value.(*connection)
		}
	}
	return nil
}

func (c *Connections) forget(o *connection) {
	o.move(nil)
	delete(c.all, o.Conn)
	if !o.from.IsValid() {
		return
	}
	if c.ofAddress[o.from]--; c.ofAddress[o.from] == 0 {
		delete(c.ofAddress, o.from)
	}
}

// move moves a connection to the end of a list, or out of all.
func (o *connection) move(to *list.List) {
	if o.in != nil {
		o.in.Remove(o.place)
	}
	if o.in = to; to != nil {
		o.place = to.PushBack(o)
	}
}
