package witness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/wire/cosign"
)

// Client asks a witness for its signature, for a log. It is for one goroutine.
type Client struct {
	url  string
	key  *cosign.Verifier
	http *http.Client
	old  int64 // size of the checkpoint that the witness signed last, as far as is known

	replays bool
	base    int64 // size of the tree from which on it replays, as far as is known
}

// patience is how long a witness may take to answer, but for records, which are longer on their way.
const patience = 2 * time.Second

// NewClient returns a client of the witness at url with a verifier key.
func NewClient(url, key string) (*Client, error) {
	if !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") {
		return nil, fmt.Errorf("address of the witness %.200q: want one like https://witness.example.org", url)
	}
	v, err := cosign.NewVerifier(key)
	if err != nil {
		return nil, err
	}
	h := &http.Client{CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if strings.HasSuffix(via[0].URL.Path, ReplayPath) { // it is for nobody but this witness
			return http.ErrUseLastResponse
		}
		return nil
	}}
	return &Client{url: strings.TrimRight(url, "/"), key: v, http: h}, nil
}

// Close closes connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Log is what a client asks its log for.
type Log interface {
	// Prove proves that the tree of a checkpoint continues one of old records.
	Prove(old int64) (tlog.TreeProof, error)
	// Replay has a witness follow the records from a tree of base records, which it signed, to that of the
	// checkpoint, and returns the last mark, "" for none. send gives it some records, and returns the mark of the
	// tree that they lead to. Errors of send: a [*Refusal].
	Replay(ctx context.Context, base int64, send func(context.Context, Replay) (mark string, err error)) (string, error)
}

// Sign returns a signed checkpoint of size records with the signature of the witness added.
func (c *Client) Sign(ctx context.Context, signed []byte, size int64, log Log) ([]byte, error) {
	for tries := 0; ; tries++ {
		if told := c.old; told > size {
			c.old, c.replays, c.base = 0, false, 0 // it is asked again the next time
			return nil, fmt.Errorf("the witness %s signed %d records, but the ledger has %d", c.key.Name(), told, size)
		}
		request := []byte("old " + strconv.FormatInt(c.old, 10) + "\n")
		if c.old > 0 && c.old < size {
			proof, err := log.Prove(c.old)
			if err != nil {
				return nil, fmt.Errorf("prove to the witness %s that the tree continues: %w", c.key.Name(), err)
			}
			for _, hash := range proof {
				request = append(request, hash.String()+"\n"...)
			}
		}
		mark, err := c.replay(ctx, size, log)
		if err != nil {
			return nil, fmt.Errorf("have the witness %s replay the ledger: %w", c.key.Name(), err)
		}
		body, err := c.post(ctx, Path, string(append(append(request, '\n'), signed...)), mark)
		if c.turnsTo(err, tries) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("the witness %s does not sign %d records: %w", c.key.Name(), size, err)
		}
		both := append(append([]byte{}, signed...), body...)
		opened, err := note.Open(both, note.VerifierList(c.key))
		if err != nil {
			return nil, fmt.Errorf("the witness %s answers no signature of its own: %w", c.key.Name(), err)
		}
		if !strings.HasPrefix(string(signed), opened.Text+"\n") {
			return nil, fmt.Errorf("the witness %s signs another text than the checkpoint", c.key.Name())
		}
		c.old, c.base = size, size
		return withSignature(signed, opened.Sigs[0]), nil
	}
}

// mostTries is how often a witness is asked: it may say first which size it has, and then that it replays.
const mostTries = 3

// turnsTo takes from a refusal what the witness has. It reports whether to ask again.
func (c *Client) turnsTo(err error, tries int) bool {
	var refused *Refusal
	if !errors.As(err, &refused) || tries+1 == mostTries {
		return false
	}
	text, _, _ := strings.Cut(refused.Text, "\n")
	size, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || size < 0:
		return false
	case refused.Status == http.StatusConflict && size != c.old:
		c.old, c.base = size, size
	case refused.Status == http.StatusPreconditionRequired && !(c.replays && size == c.base):
		c.replays, c.base = true, size
	default:
		return false
	}
	return true
}

// replay returns the mark for a tree of size records; "" = the witness wants none, as far as is known.
func (c *Client) replay(ctx context.Context, size int64, log Log) (mark string, err error) {
	if !c.replays || c.base >= size {
		return "", nil
	}
	mark, err = log.Replay(ctx, c.base, func(ctx context.Context, q Replay) (string, error) {
		raw, err := json.Marshal(q)
		if err != nil {
			return "", err
		}
		for {
			mark, err := c.post(ctx, ReplayPath, string(raw), "")
			var refused *Refusal
			if !errors.As(err, &refused) || refused.Status != http.StatusTooManyRequests {
				return mark, err
			}
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(time.Second):
			}
		}
	})
	var refused *Refusal
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound { // it was started anew, and does not replay
		c.replays = false
		return "", nil
	}
	return mark, err
}

// withSignature adds only the signature that was verified.
func withSignature(signed []byte, sig note.Signature) []byte {
	return fmt.Appendf(signed[:len(signed):len(signed)], "— %s %s\n", sig.Name, sig.Base64)
}

// post returns the answer of the witness. Errors: a [*Refusal].
func (c *Client) post(ctx context.Context, path, request, mark string) (body string, err error) {
	most := patience
	if path == ReplayPath {
		most = requestPatience
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, strings.NewReader(request))
	if err != nil {
		return "", err
	}
	if mark != "" {
		req.Header.Set(markHeader, mark)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxRequest))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = &Refusal{Status: resp.StatusCode, Text: string(raw)}
	}
	return string(raw), err
}
