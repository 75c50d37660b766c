package call

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/locked"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Config says for whom a [Caller] calls which service.
type Config struct {
	Account string
	Key     locked.Secret
	// NewKey returns the API key that the account has now; nil = Key never changes.
	NewKey func(context.Context) (locked.Secret, error)
	// Begin begins a session with an API key that the service does not see; again means that the service does not open
	// the last one. It returns nil where the service takes keys in the clear. nil = always.
	Begin     func(ctx context.Context, key locked.Secret, again bool) (*Begun, error)
	AuthURL   string // server that exchanges an API key for a session token
	URL       string // server of the operations, which gets the token
	Timeout   time.Duration
	Patience  time.Duration     // how long calls wait through an outage, see [Bridging]
	Transport http.RoundTripper // nil = one of the caller's own
	// ReadError reads an answer that is not 2xx.
	ReadError func(resp *http.Response, body []byte) *Refusal
}

// Begun is a session that begins.
type Begun struct {
	Opening wire.Opening
	Proof   wire.ProofKeys
}

// Caller sends the requests of one account to one service. It is safe for concurrent use.
type Caller struct {
	cfg      Config
	base     string // path of Config.URL, "" for none
	http     *http.Client
	held     *http.Client // for calls that are [Call].Held
	tokens   tokenSource
	outage   outage
	traffic  traffic
	distance shortest // until an answer began
	down, up line     // see [Limit]
	made     time.Time

	mu    sync.Mutex // guards the fields below
	awake awake
	holds map[*pace]bool // of calls that the service holds
	deaf  bool           // the last one failed, or the machine slept since it began

	// FarAfter and ApartAfter are other than by default only in tests. See [Caller.IsFar], [Caller.IsApart].
	FarAfter, ApartAfter time.Duration
}

// New makes a caller. It sends nothing.
func New(cfg Config) *Caller {
	c := &Caller{cfg: cfg, made: time.Now(), holds: make(map[*pace]bool), FarAfter: far, ApartAfter: nearby}
	if base, err := url.Parse(cfg.URL); err == nil {
		c.base = strings.TrimRight(base.EscapedPath(), "/")
	}
	over := func(t http.RoundTripper) *http.Client {
		return &http.Client{Transport: t,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if cfg.Transport == nil {
		c.http = over(newTransport(&net.Dialer{Timeout: dialTimeout}))
		c.held = over(newTransport(heldDialer()))
	} else {
		c.http = over(cfg.Transport)
		c.held = c.http
	}
	c.tokens.c, c.tokens.key = c, cfg.Key
	return c
}

// Close closes idle connections, unless they are of Config.Transport. Calls in progress go on.
func (c *Caller) Close() {
	if c.cfg.Transport == nil {
		c.closeIdle()
	}
}

func (c *Caller) closeIdle() {
	c.http.CloseIdleConnections()
	if c.held != c.http {
		c.held.CloseIdleConnections()
	}
}

// Call is one request, and what is done with its answer.
type Call struct {
	Kind   Kind
	Method string // "" = POST
	// Path is on the server of the operations, which also gets the session token. The service may have named
	// the path: nothing else is accepted.
	Path  string
	Query string // "" = none
	// URL is a whole address instead of Path. It gets no token.
	URL     string
	Header  http.Header // more headers; may be nil
	Request any         // sent as JSON; nil = none
	Body    *Body       // instead of Request; nil = none
	// Wait is how long the answer may take to begin. By default it is Config.Timeout, for a Body
	// [AnswerTimes] as long, and twice as long for content.
	Wait time.Duration
	// Long is an answer that may take as long as it moves, such as content or a list. Any other must end
	// within Wait after it began.
	Long bool
	// Held is a call that the service holds until it has news. It ends when its connection died silently, within
	// [heldDead], and when the machine slept meanwhile. See [Caller.Hears].
	Held bool
	// Progress is told how much of Body was sent; without a Body, how much of the answer arrived. May be nil.
	Progress func(done, total int64)
	// Answer reads an answer that is 2xx. It may be called again when the call is repeated. nil = nothing of
	// the answer counts.
	Answer func(*http.Response) error
	// Keep leaves the body of the answer to Answer, unless that returns an error: it lasts until it is closed,
	// also when the context of the call ended since.
	Keep bool
}

// Body is the body of a request, which can be sent again.
type Body struct {
	Type   string // "" = bytes
	Length int64
	Open   func() io.Reader // a fresh reader for each try, which takes the place of the one before
	// Read is called after a body was read to its end, which then is read no more. It must not block; may be nil.
	Read func()
}

// Do sends a call, and again as its kind says. When Do returns, nothing reads the memory of its body any more.
// It returns a [*Refusal] for an answer that is not 2xx.
func (c *Caller) Do(ctx context.Context, call Call) error {
	err := c.Repeat(ctx, call.Kind, func(ctx context.Context) error {
		if call.URL != "" {
			return c.exchange(ctx, &call, call.URL, grant{})
		}
		return c.authorized(ctx, &call)
	})
	if call.Held {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.deaf = err != nil
	}
	return err
}

// authorized sends a call with a token. If the service refuses the token, which it then did not act on, it sends
// the call with a new one.
func (c *Caller) authorized(ctx context.Context, call *Call) error {
	address, err := c.onService(call.Path)
	if err != nil {
		return err
	}
	granted, err := c.tokens.get(ctx, locked.Secret{})
	if err != nil {
		return err
	}
	if err = c.exchange(ctx, call, address, granted); !isTokenRefused(err) {
		return err
	}
	if granted, err = c.tokens.get(ctx, granted.token); err != nil {
		return err
	}
	return c.exchange(ctx, call, address, granted)
}
