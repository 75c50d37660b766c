package auth

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/throttle"
)

const (
	// signInRepeat is how long a repeated sign-in is not logged: programs that send
	// their key with every request sign in all the time.
	signInRepeat = time.Hour
	// maxSignIns bounds the lines about sign-ins in that time, and the memory of
	// them.
	maxSignIns = 10_000
	// failureRepeat is the time in which a failure is logged failureLines times: programs that block an
	// address count the lines.
	failureRepeat = time.Minute
	failureLines  = 5
	// maxFailures bounds the lines about failures in that time: any client can cause
	// them.
	maxFailures = 60
)

// SignIns logs sign-ins and failed ones, without secrets. A flood of them makes few
// lines, and failures take no room from sign-ins. A nil *SignIns logs nothing.
type SignIns struct {
	log *slog.Logger
	now func() time.Time

	mu       sync.Mutex
	good     seen
	failures seen
}

// signIn is one kind of sign-in: two that are equal are repeats.
type signIn struct {
	way, account, code string
	network            netip.Addr
}

// seen are the sign-ins of a while.
type seen struct {
	since  time.Time
	lines  map[signIn]int // how often each was logged
	total  int            // of them
	hidden int
}

// NewSignIns returns a log of sign-ins.
func NewSignIns(log *slog.Logger, now func() time.Time) *SignIns { return &SignIns{log: log, now: now} }

// Ways to sign in.
const (
	byKey      = "api key"
	byToken    = "session token"
	byLink     = "sign-in link"
	byProvider = "identity provider"
	byInvite   = "invite"
)

type clientKey struct{}

// WithClient notes the address that a request came from.
func WithClient(ctx context.Context, client netip.Addr) context.Context {
	return context.WithValue(ctx, clientKey{}, client)
}

func clientOf(ctx context.Context) netip.Addr {
	client, _ := ctx.Value(clientKey{}).(netip.Addr)
	return client
}

// Good logs that an account signed in.
func (s *SignIns) Good(ctx context.Context, way, account string) {
	if s == nil {
		return
	}
	s.note(ctx, slog.LevelInfo, "signed in", &s.good, signIn{way: way, account: account}, signInRepeat, 1, maxSignIns)
}

// Failed logs a failed sign-in. account is an existing one, or "": other text of the
// client may be a secret in the wrong place.
func (s *SignIns) Failed(ctx context.Context, way, account, code string) {
	if s == nil {
		return
	}
	s.note(ctx, slog.LevelWarn, "sign-in failed", &s.failures, signIn{way: way, account: account, code: code},
		failureRepeat, failureLines, maxFailures)
}

// note logs a sign-in, unless that kind was logged often enough in this period, or it is one too many.
func (s *SignIns) note(ctx context.Context, level slog.Level, text string, in *seen, what signIn,
	repeat time.Duration, often, most int) {
	client := clientOf(ctx)
	what.network = throttle.Network(client)
	s.mu.Lock()
	now := s.now()
	hidden := in.begin(now, repeat)
	hide := in.lines[what] >= often || in.total >= most
	if hide {
		in.hidden++
	} else {
		in.lines[what]++
		in.total++
	}
	s.mu.Unlock()
	s.tellHidden(ctx, level, text, hidden)
	if hide {
		return
	}
	attrs := []slog.Attr{slog.String("request", ledger.RequestID(ctx)), slog.String("by", what.way),
		slog.String("account", what.account)}
	if what.code != "" {
		attrs = append(attrs, slog.String("code", what.code))
	}
	s.log.LogAttrs(ctx, level, text, append(attrs, slog.String("client", client.String()))...)
}

// begin starts a new period once the old one is over, and returns how many sign-ins were
// hidden in it.
func (in *seen) begin(now time.Time, repeat time.Duration) (hidden int) {
	if in.lines != nil && now.Sub(in.since) < repeat {
		return 0
	}
	hidden = in.hidden
	*in = seen{since: now, lines: make(map[signIn]int)}
	return hidden
}

// Flush logs the number of hidden sign-ins once their period is over.
func (s *SignIns) Flush(ctx context.Context) {
	if s == nil {
		return
	}
	s.mu.Lock()
	now := s.now()
	good, failures := s.good.begin(now, signInRepeat), s.failures.begin(now, failureRepeat)
	s.mu.Unlock()
	s.tellHidden(ctx, slog.LevelInfo, "signed in", good)
	s.tellHidden(ctx, slog.LevelWarn, "sign-in failed", failures)
}

func (s *SignIns) tellHidden(ctx context.Context, level slog.Level, text string, n int) {
	if n > 0 {
		s.log.LogAttrs(ctx, level, text+": more of the same or too many to list", slog.Int("count", n))
	}
}
