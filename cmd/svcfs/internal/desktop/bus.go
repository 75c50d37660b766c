package desktop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

// The names that the bus knows.
const (
	// serverName and serverPath are those of whoever shows notifications.
	serverName = "org.freedesktop.Notifications"
	serverPath = "/org/freedesktop/Notifications"
	// Entry is the desktop entry of svcfs, by which a desktop lets its user mute it.
	Entry = "svcfs"
	// watcherName is owned by the one process of a session that watches the mounts.
	watcherName = "io.github.svcfs.Notify"
	watcherPath = "/io/github/svcfs/Notify"
	// callLimit bounds the wait for an answer over the bus: the desktop may have to start a program.
	callLimit = 10 * time.Second
)

var (
	// ErrNoBus means that there is no session bus, so no desktop.
	ErrNoBus = errors.New("there is no session bus")
	// ErrTaken means that another process of this session watches already.
	ErrTaken = errors.New("another svcfs notify runs in this session")
)

// Bus is a connection to the session bus. Its methods are safe for concurrent use.
type Bus struct{ conn *dbus.Conn }

// Connect connects to the bus at address, as in DBUS_SESSION_BUS_ADDRESS, where one runs; it
// starts none. No bus is [ErrNoBus].
func Connect(ctx context.Context, address string) (*Bus, error) {
	if !isLocal(address) {
		return nil, ErrNoBus
	}
	type answer struct {
		conn *dbus.Conn
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		conn, err := dbus.Connect(address, dbus.WithContext(context.WithoutCancel(ctx)))
		done <- answer{conn, err}
	}()
	select {
	case a := <-done:
		if a.err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoBus, a.err)
		}
		return &Bus{a.conn}, nil
	case <-time.After(callLimit):
		return nil, fmt.Errorf("%w that answers", ErrNoBus)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// isLocal reports whether an address names sockets of this machine alone: others would run a
// program, or ask another machine.
func isLocal(address string) bool {
	for one := range strings.SplitSeq(address, ";") {
		if !strings.HasPrefix(one, "unix:") {
			return false
		}
	}
	return true
}

// Close ends the connection.
func (b *Bus) Close() error { return b.conn.Close() }

// Done is closed when the bus is gone.
func (b *Bus) Done() <-chan struct{} { return b.conn.Context().Done() }

// Watch makes this process the one of the session that watches, else [ErrTaken].
func (b *Bus) Watch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	var reply uint32
	err := b.conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.RequestName", 0, watcherName,
		uint32(dbus.NameFlagDoNotQueue)).Store(&reply)
	if err != nil {
		return fmt.Errorf("%w that answers: %w", ErrNoBus, err)
	}
	if dbus.RequestNameReply(reply) != dbus.RequestNameReplyPrimaryOwner {
		return ErrTaken
	}
	return nil
}

// Serve answers file managers: whether each of some addresses (file://) holds.
func (b *Bus) Serve(holds func(address string) bool) error {
	return b.conn.Export(places{holds}, watcherPath, watcherName)
}

// places is what a file manager asks over the bus.
type places struct{ holds func(string) bool }

// HoldsAll reports whether all addresses are in mounts of svcfs.
func (p places) HoldsAll(addresses []string) (bool, *dbus.Error) {
	return len(addresses) > 0 && !slices.ContainsFunc(addresses,
		func(address string) bool { return !p.holds(address) }), nil
}

// Copy puts a text into the clipboard, where the desktop does that over the bus (KDE's Klipper).
func (b *Bus) Copy(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return b.conn.Object("org.kde.klipper", "/klipper").CallWithContext(ctx,
		"org.kde.klipper.klipper.setClipboardContents", dbus.FlagNoAutoStart, text).Err
}

// Tell shows a message.
func (b *Bus) Tell(ctx context.Context, m Message) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	server := b.conn.Object(serverName, serverPath)
	var can []string
	if err := server.CallWithContext(ctx, serverName+".GetCapabilities", 0).Store(&can); err != nil {
		return fmt.Errorf("ask the desktop for its notifications: %w", err)
	}
	body := m.Body
	if slices.Contains(can, "body-markup") {
		body = Markup(body)
	}
	const normal, asTheDesktopLikes = byte(1), int32(-1)
	hints := map[string]dbus.Variant{"desktop-entry": dbus.MakeVariant(Entry), "urgency": dbus.MakeVariant(normal)}
	call := server.CallWithContext(ctx, serverName+".Notify", 0, "svcfs", uint32(0), "svcfs", m.Title, body,
		[]string{}, hints, asTheDesktopLikes)
	if call.Err != nil {
		return fmt.Errorf("show a notification: %w", call.Err)
	}
	return nil
}
