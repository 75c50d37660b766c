package sdk

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
)

const (
	// maxTries is how often an idempotent request is sent at most.
	maxTries = 4
	// firstPause is the pause before the second try. It doubles for each further try, with
	// jitter.
	firstPause = 100 * time.Millisecond
	// maxPause bounds the pause that a service demands with Retry-After.
	maxPause = 5 * time.Second
	// maxErrorBytes bounds the body of an answer that is not 2xx, in bytes.
	maxErrorBytes = 64 << 10
)

// tool calls an operation with a session token and decodes its answer into result, which
// may be nil. If the service refuses the token, tool sends the request again with a new
// token: the service did not carry out the first request.
func (c *Client) tool(ctx context.Context, op string, patience time.Duration, request, result any) error {
	return c.authorized(ctx, func(token Secret) error {
		raw, err := c.post(ctx, c.cfg.MCPURL+wire.PathTools+op, patience, c.bearer(token), request)
		if err != nil {
			return err
		}
		return c.decodeResult(raw, result)
	})
}

// read is tool for operations that change nothing. It repeats them after temporary faults.
func (c *Client) read(ctx context.Context, op string, request, result any) error {
	return c.retry(ctx, func(ctx context.Context) error { return c.tool(ctx, op, c.cfg.Timeout, request, result) })
}

// change is tool for operations that may wait for the ledger. It waits longer than read,
// because the outcome of an abandoned request is unknown, and the request may have been
// paid. It repeats only requests that the service was too busy to look at.
func (c *Client) change(ctx context.Context, op string, request, result any) error {
	return c.retryWhen(ctx, refusedBusy, func(ctx context.Context) error {
		return c.tool(ctx, op, answerTimes*c.cfg.Timeout, request, result)
	})
}

// authorized runs send with a token. If the service refuses the token, it runs send again
// with a new one.
func (c *Client) authorized(ctx context.Context, send func(Secret) error) error {
	return c.repeatInGap(ctx, isUnsent, func() error { return c.authorizedOnce(ctx, send) })
}

func (c *Client) authorizedOnce(ctx context.Context, send func(Secret) error) error {
	token, err := c.tokens.get(ctx, Secret{})
	if err != nil {
		return err
	}
	err = send(token)
	var answered *answerError
	if !errors.As(err, &answered) || answered.status != http.StatusUnauthorized && answered.kind != ErrAudience {
		return err
	}
	if token, err = c.tokens.get(ctx, token); err != nil {
		return err
	}
	return send(token)
}

// maxHeaderValue bounds the value of a header, in bytes.
const maxHeaderValue = 16 << 10

// fitsHeader reports whether s can be the value of a header. net/http would refuse other
// values later, with an obscure error.
func fitsHeader(s string) bool {
	return len(s) <= maxHeaderValue && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

func (c *Client) bearer(token Secret) http.Header {
	h := http.Header{}
	h.Set("Authorization", "Bearer "+token.Reveal())
	h.Set(wire.HeaderAccountID, string(c.account))
	h.Set(wire.HeaderWalletID, string(c.account))
	return h
}

// post sends request as JSON and returns the whole answer. The answer must begin within
// patience. Then a list may take as long as it moves; any other answer must end within
// patience again.
func (c *Client) post(ctx context.Context, address string, patience time.Duration, header http.Header, request any) (raw []byte, err error) {
	err = c.postFor(ctx, address, patience, header, request, c.whole(address, &raw))
	return raw, err
}

// whole returns a function that reads an answer from an address into raw.
func (c *Client) whole(address string, raw *[]byte) func(*http.Response, io.Reader) error {
	return func(resp *http.Response, in io.Reader) (err error) {
		*raw, err = readBounded(in, resp.ContentLength, c.answerLimit(address))
		return err
	}
}

// postFor is post for a reader of the body of the answer.
func (c *Client) postFor(ctx context.Context, address string, patience time.Duration, header http.Header, request any, read func(*http.Response, io.Reader) error) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	ctx, pace, stop := c.paced(ctx, patience)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", "application/json")
	return c.exchange(req, pace, read)
}

// get fetches a JSON document without authentication.
func (c *Client) get(ctx context.Context, address string, answer any) error {
	ctx, pace, stop := c.paced(ctx, c.cfg.Timeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	var raw []byte
	if err := c.exchange(req, pace, c.whole(address, &raw)); err != nil {
		return err
	}
	return decode(raw, answer)
}

func (c *Client) exchange(req *http.Request, pace *pace, read func(*http.Response, io.Reader) error) error {
	resp, err := c.send(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	pace.advance(0, true)
	if c.answerLimit(req.URL.Path) <= maxAnswerBytes {
		pace = nil // it ends with the wait, however it moves
	} else {
		pace.enter(receiving)
	}
	return read(resp, &pacedReader{req.Context(), resp.Body, pace, nil})
}

const (
	// maxAnswerBytes bounds an answer that is neither a list nor file content, in bytes.
	maxAnswerBytes = 1 << 20
	// maxListBytes bounds a list of records, in bytes: about 300,000 records.
	maxListBytes = 128 << 20
)

// answerLimit returns the largest answer that is accepted at a path, in bytes. A service
// without paging lists a whole group at once, which may take as much memory as a file.
func (c *Client) answerLimit(path string) int64 {
	switch path[strings.LastIndexByte(path, '/')+1:] {
	case wire.OpGetGroupTransactions:
		return max(wire.MaxJSONBytes, min(maxListBytes, c.cfg.MaxFileBytes/2, c.cfg.ListMemory/wholeShare))
	case wire.OpGetOwnedGroups, wire.OpGetMemberGroups, wire.OpGetGroupMembers, wire.OpWatch:
		return wire.MaxJSONBytes
	default:
		return maxAnswerBytes
	}
}

// send sends a request. It returns an *answerError for an answer that is not 2xx.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	if c.awake.slept(time.Now(), time.Since(c.made)) { // the other ends may have forgotten us
		c.http.CloseIdleConnections()
	}
	began := time.Now()
	resp, err := c.http.Do(req)
	if err == nil {
		c.distance.note(time.Since(began))
	}
	if err == nil && isPage(resp) {
		_ = resp.Body.Close()
		err = errPage
	}
	if isUnproven(err) {
		err = fmt.Errorf("%w: %w", errUnproven, withoutURL(err))
	}
	if err != nil {
		if err = whyEnded(req.Context(), err); isConnectionLost(err) {
			c.gap.failed(time.Now())
		}
		if errors.Is(err, errTooSlow) { // by WithPatience
			c.http.CloseIdleConnections()
		}
		return nil, err
	}
	c.gap.over()
	c.traffic.answer(time.Now())
	if moves, ok := req.Context().Value(patienceKey{}).(func()); ok {
		moves()
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	return nil, c.scrubAnswer(readError(resp, body))
}

// errPage means that something other than the service answered, such as a network that wants a sign-in
// first: as good as no connection.
var errPage = errors.New("a sign-in page of the network answers instead of the service")

// errUnproven means that something answered that does not prove to be the service, so that it got no request:
// as good as no connection.
var errUnproven = errors.New("what answers does not prove to be the service (a network that wants a sign-in does so)")

// isUnproven reports whether a connection was given up because the other end has no certificate of the service.
func isUnproven(err error) bool {
	return errors.As(err, new(*tls.CertificateVerificationError)) || errors.Is(err, http.ErrSchemeMismatch)
}

// isPage reports whether an answer is for people, or leads to one on another machine. A service at a new
// address would say that it moved for good.
func isPage(resp *http.Response) bool {
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	switch resp.StatusCode {
	case http.StatusNetworkAuthenticationRequired:
		return true
	case http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect:
		to, err := resp.Location()
		return err == nil && resp.Request != nil && to.Hostname() != resp.Request.URL.Hostname()
	case http.StatusUnauthorized, http.StatusForbidden: // the service refuses in JSON
	default:
		if resp.StatusCode/100 != 2 {
			return false
		}
	}
	return strings.EqualFold(strings.TrimSpace(kind), "text/html")
}

// errTooMuch means that an answer is over its limit.
var errTooMuch = errors.New("the answer is too large")

// maxAnnounced bounds the memory that is allocated for an answer before it arrives, in
// bytes.
const maxAnnounced = 4 << 20

// readBounded reads the body of an answer. announced is its length, negative if the length
// is not known.
func readBounded(body io.Reader, announced, limit int64) ([]byte, error) {
	if announced > limit {
		return nil, malformed(errTooMuch)
	}
	if announced > 0 && announced <= maxAnnounced {
		raw := make([]byte, announced)
		_, err := io.ReadFull(body, raw)
		return raw, err
	}
	raw, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) > limit {
		return nil, malformed(errTooMuch)
	}
	return raw, nil
}

// malformedError is the cause for an answer that does not follow the protocol.
type malformedError struct{ err error }

func malformed(err error) error { return &malformedError{err} }

func (e *malformedError) Error() string {
	return "the service's answer makes no sense: " + e.err.Error()
}
func (e *malformedError) Unwrap() error { return e.err }

// decode reads one JSON document of bounded depth.
func decode(raw []byte, into any) error {
	if wire.DeeperThan(raw, maxDepth) {
		return malformed(errTooDeep)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return malformed(describeJSON(err))
	}
	return nil
}

var errTooDeep = fmt.Errorf("nested deeper than %d", maxDepth)

// describeJSON returns a JSON error with the place of the fault and without the content of
// the answer.
func describeJSON(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("not JSON at byte %d", syntax.Offset)
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("field %s has the wrong type", quote(wrong.Field))
	}
	if errors.Is(err, errShortItems) {
		return err
	}
	return errors.New("not the JSON that was expected")
}

// decodeResult is the function decodeResult with scrubbed errors.
func (c *Client) decodeResult(raw json.RawMessage, result any) error {
	return c.scrubAnswer(decodeResult(raw, result))
}

// envelope is an answer: the result, and the fields of ours beside it.
type envelope struct{ Result, Error, Code, Roles, Exists, More, Proof json.RawMessage }

// decodeResult decodes {"result": …}, or a bare body (generation A), into result. If result
// is nil, it accepts any JSON. It returns an error for an answer with status 2xx that holds
// an error.
func decodeResult(raw json.RawMessage, result any) error {
	if p, ok := result.(*page); ok {
		if p.rows, p.proof, ok = wire.ParseRows(raw, freeItems, leastRow); ok {
			return nil
		}
	}
	if wire.DeeperThan(raw, maxDepth) {
		return malformed(errTooDeep)
	}
	var whole envelope
	if json.Unmarshal(raw, &whole) == nil {
		if whole.Result != nil {
			raw = whole.Result
		} else if text := textOf(whole.Error); text != "" {
			return newAnswerError(http.StatusOK, textOf(whole.Code), text)
		}
	}
	if result == nil {
		var any json.RawMessage
		return decode(raw, &any)
	}
	if len(raw) == 0 || string(raw) == "null" {
		return malformed(errors.New("the result is null"))
	}
	err := decode(raw, result)
	if more, ok := result.(interface{ readBeside(envelope) error }); ok && err == nil {
		return more.readBeside(whole)
	}
	return err
}

// textOf returns the content of a JSON string, "" for any other value.
func textOf(raw json.RawMessage) (text string) {
	_ = json.Unmarshal(raw, &text)
	return text
}

// retry runs send, and again after temporary faults. Repeating the request must do no harm.
// A connection that stands still is given up for another one once.
func (c *Client) retry(ctx context.Context, send func(context.Context) error) error {
	stood := false
	return c.retryWhen(ctx, func(err error) (time.Duration, bool) {
		if errors.Is(err, errStill) {
			again := !stood
			stood = true
			return 0, again
		}
		return passing(err)
	}, send)
}

// retryWhen runs send, and again after faults that may reports as repeatable.
func (c *Client) retryWhen(ctx context.Context, may func(error) (pause time.Duration, again bool), send func(context.Context) error) error {
	b := c.bridge()
	pause := firstPause
	for try := 1; ; try++ {
		err := send(ctx)
		wait, passes := may(err)
		if holds, spent := b.holds(ctx, err); err == nil || !passes || spent || ctx.Err() != nil || try >= maxTries && !holds {
			return err
		}
		if wait == 0 {
			wait = jittered(pause)
			pause = min(2*pause, longestPause)
		}
		if err := rest(ctx, wait, err); err != nil {
			return err
		}
	}
}

func jittered(pause time.Duration) time.Duration { return pause/2 + rand.N(pause) }

// rest waits before a request that failed with err is repeated.
func rest(ctx context.Context, wait time.Duration, err error) error {
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w while waiting to repeat: %v", ended(ctx), err)
	}
}

// passing reports whether a fault is temporary, and the pause that the service asked for.
func passing(err error) (pause time.Duration, passes bool) {
	var answered *answerError
	if errors.As(err, &answered) {
		switch answered.status {
		case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return answered.retryAfter, true
		}
		return 0, false
	}
	return 0, isConnectionLost(err)
}

// passingBlocks is passing for blocks, which also go on after a transfer that stood still: what
// arrived before counts. A call must end once nothing arrives.
func passingBlocks(err error) (pause time.Duration, passes bool) {
	if errors.Is(err, errTooSlow) {
		return 0, true
	}
	return passing(err)
}

// refusedBusy reports whether the service refused the request without looking at it, and
// the pause that the service asked for.
func refusedBusy(err error) (pause time.Duration, again bool) {
	var answered *answerError
	if errors.As(err, &answered) && answered.status == http.StatusTooManyRequests {
		return answered.retryAfter, true
	}
	return 0, false
}

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds <= 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxPause)
}
