package testkit

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Surface is the operation that a lie is about.
type Surface string

// The surfaces.
const (
	OnRetrieve Surface = "retrieve" // prepare_retrieve and the data behind it
	OnUpload   Surface = "upload"   // prepare_upload and finalize_upload
	OnList     Surface = "list"     // get_group_transactions
	OnToken    Surface = "token"    // the session token
	OnWatch    Surface = "watch"    // what happened, at an extended service
)

// Mode is one lie.
type Mode struct {
	Name    string
	Surface Surface
	// Want is the kind of error a client must end with; Survives means that the
	// client must succeed all the same, because the fault passes. A watch that has
	// begun ends with [sdk.ErrCorrupt] when its channel is closed, whatever the
	// reason, and succeeds when it tells what happened and can be ended.
	Want     sdk.Kind
	Survives bool

	// Threat is what a client is tried for: 4 secrets shown, 5 changed files, 7
	// answers of the wrong shape, 8 answers without end, 10 other hosts, 11 weak
	// keys, 12 a service that fails, 13 false acknowledgements.
	Threat int

	raw bool // through raw transfer: a large file at an extended service
	lie lie
}

// Hostile is a service that is honest but for one lie, and holds one file.
type Hostile struct {
	*Server
	Mode    Mode
	Alice   Account
	Group   sdk.GroupID
	Entry   sdk.Entry // of the file, as an honest ledger has it
	Content []byte    // of the file
	other   *httptest.Server
	asked   atomic.Int32 // requests at another host
	ended   chan struct{}
}

// NewHostile starts a service that lies until [Hostile.Behave].
func NewHostile(tb testing.TB, mode Mode) *Hostile {
	tb.Helper()
	dialect := Hosted
	if mode.raw || mode.Surface == OnWatch {
		dialect = Ours
	}
	h := &Hostile{Server: Start(tb, dialect), Mode: mode, Group: "hostile", ended: make(chan struct{})}
	h.Alice = h.Account("alice", "1000")
	h.Content = bytes.Repeat([]byte("the plaintext that must never show in an error. "), 40)
	if mode.raw {
		h.Content = bytes.Repeat(h.Content, 100)
	}
	h.other = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { h.asked.Add(1) }))
	tb.Cleanup(func() { close(h.ended); h.other.Close() })
	c := h.Client(tb, h.Alice)
	if _, err := c.Group(h.Group).Register(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	h.Entry = h.keep(tb, c, h.Content, "secret.txt")
	h.keep(tb, c, []byte("something else"), "other.txt")
	for _, path := range mode.Surface.paths(mode.raw) {
		h.Disturb(path, func(next http.Handler) http.Handler { return mode.lie(h, next) })
	}
	return h
}

func (s Surface) paths(raw bool) []string {
	switch s {
	case OnUpload:
		return []string{wire.PathTools + wire.OpPrepareUpload, wire.PathTools + wire.OpFinalizeUpload}
	case OnList:
		return []string{wire.PathTools + wire.OpGetGroupTransactions}
	case OnToken:
		return []string{wire.PathSessionToken}
	case OnWatch:
		return []string{wire.PathTools + wire.OpWatch}
	}
	if raw {
		return []string{wire.PathTools + wire.OpPrepareRetrieve, wire.PathReadBlob + "*"}
	}
	return []string{wire.PathTools + wire.OpPrepareRetrieve}
}

// Behave ends the lie.
func (h *Hostile) Behave() {
	for _, path := range h.Mode.Surface.paths(h.Mode.raw) {
		h.Disturb(path, nil)
	}
}

// AskedElsewhere counts requests the client was led to make at another host.
func (h *Hostile) AskedElsewhere() int { return int(h.asked.Load()) }

// keep stores a file.
func (h *Hostile) keep(tb testing.TB, c *sdk.Client, content []byte, name string) sdk.Entry {
	tb.Helper()
	r, err := c.Group(h.Group).Put(tb.Context(), name, bytes.NewReader(content))
	if err != nil {
		tb.Fatal(err)
	}
	return sdk.Entry{Group: h.Group, Ref: r.Ref, Hash: r.Hash, Size: sdk.SizeUnknown, Uploader: h.Alice.ID}
}

// Modes returns every lie.
func Modes() []Mode {
	return slices.Concat(blobModes(), keyModes(), metadataModes(), transportModes(), rawModes(), uploadModes(), listModes(), tokenModes(), watchModes())
}

// lie stands between a client and the honest service.
type lie func(h *Hostile, honest http.Handler) http.Handler

type lies map[string]lie

// modes are lies of one threat that must end in an error of that kind.
func modes(on Surface, threat int, want sdk.Kind, told lies) (list []Mode) {
	for name, l := range told {
		list = append(list, Mode{Name: name, Surface: on, Threat: threat, Want: want, lie: l})
	}
	return list
}

// passing are lies that a client must survive.
func passing(on Surface, threat int, told lies) []Mode {
	list := modes(on, threat, sdk.ErrOther, told)
	for i := range list {
		list[i].Survives = true
	}
	return list
}

// changed lets the honest service answer and changes the result.
func changed(change func(h *Hostile, result map[string]any)) lie {
	return func(h *Hostile, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			honest := httptest.NewRecorder()
			next.ServeHTTP(honest, r)
			var envelope map[string]any
			if honest.Code != http.StatusOK || json.Unmarshal(honest.Body.Bytes(), &envelope) != nil {
				forward(w, honest)
				return
			}
			result, ok := envelope["result"].(map[string]any)
			if !ok {
				result = envelope
			}
			change(h, result)
			writeJSON(w, http.StatusOK, envelope)
		})
	}
}

// said answers a fixed body.
func said(status int, body string) lie {
	return func(*Hostile, http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
	}
}

// blobOf changes the ciphertext of an inline answer.
func blobOf(change func([]byte) []byte) lie {
	return changed(func(_ *Hostile, m map[string]any) {
		blob, err := base64.StdEncoding.DecodeString(m["encrypted_b64"].(string))
		if err != nil {
			panic(err)
		}
		m["encrypted_b64"] = encode64(change(blob))
	})
}

func flip(at int) lie {
	return blobOf(func(b []byte) []byte { b[(at+len(b))%len(b)] ^= 1; return b })
}

// without leaves a field out.
func without(name string) lie {
	return changed(func(_ *Hostile, m map[string]any) { delete(m, name) })
}

func blobModes() []Mode {
	text := func(change func(string) any) lie {
		return changed(func(_ *Hostile, m map[string]any) { m["encrypted_b64"] = change(m["encrypted_b64"].(string)) })
	}
	return modes(OnRetrieve, 5, sdk.ErrCorrupt, lies{
		"bit of the IV":         flip(3),
		"bit of the ciphertext": flip(40),
		"bit of the tag":        flip(-1),
		"truncated":             blobOf(func(b []byte) []byte { return b[:len(b)-1] }),
		"truncated to the IV":   blobOf(func(b []byte) []byte { return b[:12] }),
		"27 bytes":              blobOf(func(b []byte) []byte { return b[:27] }),
		"5 bytes":               blobOf(func(b []byte) []byte { return b[:5] }),
		"empty":                 text(func(string) any { return "" }),
		"appended":              blobOf(func(b []byte) []byte { return append(b, 0) }),
		"data of null":          text(func(string) any { return nil }),
		"data a number":         text(func(string) any { return 7 }),
		"data an object":        text(func(s string) any { return map[string]any{"encrypted_b64": s} }),
		"not base64":            text(func(s string) any { return s[:40] + "!" + s[41:] }),
		"base64 url-safe":       text(func(s string) any { return s[:40] + "-_-_" + s[44:] }),
		"base64 with newlines":  text(func(s string) any { return s[:40] + "\n" + s[40:] }),
		"base64 unpadded":       text(func(s string) any { return s + "A" }),
		"base64 padded inside":  text(func(s string) any { return s[:40] + "AA==" + s[44:] }),
		"other file":            changed(func(h *Hostile, m map[string]any) { m["key"], m["encrypted_b64"] = sealed([]byte("another file")) }),
		"older version": changed(func(h *Hostile, m map[string]any) {
			m["key"], m["encrypted_b64"] = sealed(append(bytes.Clone(h.Content[:len(h.Content)-1]), '!'))
		}),
		"empty file": changed(func(h *Hostile, m map[string]any) { m["key"], m["encrypted_b64"] = sealed(nil) }),
	})
}

// sealed returns a key and a blob in base64.
func sealed(content []byte) (key, blob string) {
	raw := bytes.Repeat([]byte{0x5a}, format.KeyBytes)
	k, err := format.NewKey(raw)
	if err != nil {
		panic(err)
	}
	b, err := format.SealBlob(k, content)
	if err != nil {
		panic(err)
	}
	return encode64(raw), encode64(b)
}

func keyModes() []Mode {
	key := func(v any) lie {
		return changed(func(_ *Hostile, m map[string]any) { m["key"] = v })
	}
	of := func(n int) any { return encode64(bytes.Repeat([]byte{9}, n)) }
	return modes(OnRetrieve, 5, sdk.ErrCorrupt, lies{
		"key of 16 bytes": key(of(16)), "key of 24 bytes": key(of(24)), "key of 31 bytes": key(of(31)), "key of 33 bytes": key(of(33)),
		"wrong key": key(of(32)), "zero key": key(encode64(make([]byte, 32))), "no key": without("key"), "empty key": key(""), "key a number": key(1), "key unpadded": key(strings.TrimRight(of(32).(string), "=")),
	})
}

func metadataModes() []Mode {
	deflated := func(size any, change func([]byte) []byte) lie {
		return changed(func(h *Hostile, m map[string]any) {
			stream, err := format.Deflate(h.Content)
			if err != nil {
				panic(err)
			}
			if size == nil {
				size = len(h.Content)
			}
			m["key"], m["encrypted_b64"] = sealed(change(stream))
			m["format"] = map[string]any{"version": 1, "compression": "deflate", "original_size": size}
		})
	}
	as := func(b []byte) []byte { return b }
	meta := func(v any) lie {
		return changed(func(_ *Hostile, m map[string]any) { m["format"] = v })
	}
	list := modes(OnRetrieve, 5, sdk.ErrCorrupt, lies{
		"stripped compression": changed(func(h *Hostile, m map[string]any) {
			stream, err := format.Deflate(h.Content)
			if err != nil {
				panic(err)
			}
			m["key"], m["encrypted_b64"] = sealed(stream)
		}),
		"added compression": meta(map[string]any{"version": 1, "compression": "deflate", "original_size": 100}),
		"bad Adler-32":      deflated(nil, func(b []byte) []byte { b[len(b)-1] ^= 1; return b }),
		"trailing zlib":     deflated(nil, func(b []byte) []byte { return append(b, 0) }),
		"shortened zlib":    deflated(nil, func(b []byte) []byte { return b[:len(b)-5] }),
		"size too small":    deflated(3, as),
		"size too large":    deflated(100_000, as),
		"size negative":     deflated(-1, as),
		"size a fraction":   deflated(1.5, as),
		"format a list":     meta([]int{1}),
		"format a string":   meta("v1"),
	})
	list = append(list, modes(OnRetrieve, 8, sdk.ErrCorrupt, lies{
		"size 2^62":   deflated(int64(1)<<62, as),
		"format huge": meta(map[string]any{"x": strings.Repeat("x", 1<<20)}),
		"bomb": changed(func(h *Hostile, m map[string]any) {
			m["key"], m["encrypted_b64"] = sealed(bomb())
			m["format"] = map[string]any{"version": 1, "compression": "deflate", "original_size": len(h.Content)}
		}),
	})...)
	list = append(list, modes(OnRetrieve, 5, sdk.ErrUnsupported, lies{
		"unknown version":     meta(map[string]any{"version": 3}),
		"version a string":    meta(map[string]any{"version": "1"}),
		"unknown compression": meta(map[string]any{"version": 1, "compression": "brotli"}),
	})...)
	list = append(list, modes(OnRetrieve, 4, sdk.ErrUnsupported, lies{
		"token as version": func(h *Hostile, next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				changed(func(_ *Hostile, m map[string]any) {
					m["format"] = map[string]any{"version": r.Header.Get("Authorization")}
				})(h, next).ServeHTTP(w, r)
			})
		},
	})...)
	return append(list, modes(OnRetrieve, 8, sdk.ErrTooLarge, lies{
		"size over the limit": deflated(int64(1)<<50, as),
	})...)
}

// bomb is 64 MiB of zeros as a zlib stream, made without holding them.
func bomb() []byte {
	var stream bytes.Buffer
	z := zlib.NewWriter(&stream)
	for range 64 {
		_, _ = z.Write(make([]byte, 1<<20)) // into memory
	}
	_ = z.Close()
	return stream.Bytes()
}

// once tells a lie n times, then the truth.
func once(n int32, tell lie) lie {
	var told atomic.Int32
	return func(h *Hostile, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if told.Add(1) > n {
				next.ServeHTTP(w, r)
				return
			}
			tell(h, next).ServeHTTP(w, r)
		})
	}
}

func redirect(status int) lie {
	return func(h *Hostile, _ http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, h.other.URL+r.URL.Path, status) })
	}
}

// cut breaks the connection behind a part of the honest answer.
func cut(_ *Hostile, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		honest := httptest.NewRecorder()
		next.ServeHTTP(honest, r)
		w.Header().Set("Content-Length", "1000000")
		_, _ = w.Write(honest.Body.Bytes()[:honest.Body.Len()/2])
		panic(http.ErrAbortHandler)
	})
}

// endless sends head, then filler until the client leaves.
func endless(head, filler string, pause time.Duration) lie {
	return func(h *Hostile, _ http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := w.Write([]byte(head))
			for err == nil {
				if _, err = w.Write([]byte(filler)); pause > 0 {
					_ = http.NewResponseController(w).Flush()
				}
				select {
				case <-time.After(pause):
				case <-r.Context().Done():
					return
				case <-h.ended:
					return
				}
			}
		})
	}
}

// many sends head, n times item, and tail: short items that take much more memory
// decoded than on the wire.
func many(head, item string, n int, tail string) lie {
	return func(*Hostile, http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(head)) // the client may leave early
			piece := []byte(strings.Repeat(item, 1<<10))
			for range n >> 10 {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
			_, _ = w.Write([]byte(tail))
		})
	}
}

// echo repeats the request's secrets in an error.
func echo(_ *Hostile, _ http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bearer := r.Header.Get("Authorization")
		text := "bad request: " + bearer + " / " + strings.TrimPrefix(bearer, "Bearer ") + " / " + r.Header.Get(wire.HeaderAPIKey) + "\x1b[2J\n\u202e"
		writeJSON(w, http.StatusInternalServerError, wire.Error{Error: text})
	})
}

const filler = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

const page = `<!doctype html><html><script>alert("x")</script><h1>Bad gateway</h1></html>`

func transportModes() []Mode {
	big := strings.Repeat(filler, 1<<12)
	const r = OnRetrieve
	return slices.Concat(
		modes(r, 7, sdk.ErrCorrupt, lies{"null result": said(200, `{"result":null}`), "result a list": said(200, `{"result":[1]}`), "no body": said(200, ""),
			"half a document": said(200, `{"result":{"key":"`), "two documents": said(200, `{"result":{}}{"result":{}}`)}),
		modes(r, 7, sdk.ErrUnavailable, lies{"HTML": said(200, page)}),
		modes(r, 7, sdk.ErrOther, lies{"HTML 500": said(500, page), "error an object": said(500, `{"error":{"a":1}}`), "error in a success": said(200, `{"error":"no reason given"}`)}),
		modes(r, 8, sdk.ErrCorrupt, lies{"deep JSON": said(200, strings.Repeat(`{"result":`, 100_000)), "deep list": said(200, `{"result":`+strings.Repeat(`[`, 1_000_000)),
			"endless text":  endless(`{"result":{"key":"`, big, 0),
			"endless names": endless(`{"result":{"`, big, 0),
			"endless list":  endless(`{"result":[`, strings.Repeat("1,", 1<<16), 0)}),
		modes(r, 8, sdk.ErrTooLarge, lies{"endless data": endless(`{"result":{"encrypted_b64":"`, big, 0)}),
		modes(r, 8, sdk.ErrTimeout, lies{"slow data": endless(`{"result":{"encrypted_b64":"`, "AAAA", 20*time.Millisecond)}),
		modes(r, 4, sdk.ErrOther, lies{"echo": echo}),
		modes(r, 10, sdk.ErrOther, lies{"redirect 302": redirect(302), "redirect 307": redirect(307), "redirect 308": redirect(308)}),
		modes(r, 10, sdk.ErrCorrupt, lies{"another host in place of data": elsewhere("http:"), "another host in place of data, no scheme": elsewhere("")}),
		modes(r, 12, sdk.ErrUnavailable, lies{"cut": cut, "503": said(503, page), "502": said(502, page)}),
		modes(r, 12, sdk.ErrTooLarge, lies{"413": said(413, `{"error":"request too large"}`)}),
		modes(r, 12, sdk.ErrUnauthenticated, lies{"401 forever": said(401, `{"error":"Auth failed: invalid session token"}`)}),
		modes(r, 12, sdk.ErrAudience, lies{"wrong audience": said(401, `{"error":"Auth failed: Audience mismatch"}`)}),
		modes(r, 12, sdk.ErrNotAuthorized, lies{"403": said(403, `{"error":"User not authorized"}`), "403 of the key server": said(500, `{"error":"Shade retrieve failed: 403 - {\"error\":\"Unauthorized\"}"}`),
			"long panic": said(500, `{"error":"`+strings.Repeat("ActionError ", 100)+`Smart contract panicked: User not authorized"}`)}),
		modes(r, 12, sdk.ErrInsufficient, lies{"402": said(402, `{"error":"Insufficient balance"}`), "no money, 500": said(500, `{"error":"Insufficient balance"}`)}),
		modes(r, 12, sdk.ErrDeleted, lies{"deleted": said(500, `{"error":"Shade retrieve failed: 404 - File deleted"}`)}),
		modes(r, 12, sdk.ErrNotFound, lies{"404": said(404, `{"error":"No key for this file","code":"FILE_KEY_NOT_FOUND"}`), "no such file, 500": said(500, `{"error":"FILE_KEY_NOT_FOUND No key for this file"}`)}),
		modes(r, 12, sdk.ErrRateLimited, lies{"429": said(429, `{"error":"too many requests"}`)}),
		modes(r, 12, sdk.ErrStorageFull, lies{"507": said(507, `{"error":"no room","code":"STORAGE_FULL"}`)}),
		passing(r, 12, lies{
			"wrong audience once": once(1, said(401, `{"error":"Auth failed: Audience mismatch"}`)),
			"401 once":            once(1, said(401, `{"error":"Auth failed: invalid session token"}`)),
			"503 thrice":          once(3, said(503, page)),
			"cut once":            once(1, cut),
			"429 with Retry-After": once(1, func(*Hostile, http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Retry-After", "1")
					writeJSON(w, http.StatusTooManyRequests, wire.Error{Error: "too many requests"})
				})
			}),
		}))
}

// elsewhere names the address of another host in place of the data.
func elsewhere(scheme string) lie {
	return changed(func(h *Hostile, m map[string]any) {
		delete(m, "encrypted_b64")
		m["data_url"], m["data_size"] = scheme+strings.TrimPrefix(h.other.URL, "http:")+"/x", 100
	})
}

// rawModes lie about data that travels beside the JSON.
func rawModes() []Mode {
	address := func(change func(h *Hostile, m map[string]any)) lie {
		return func(h *Hostile, next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, wire.PathTools) {
					next = changed(change)(h, next)
				}
				next.ServeHTTP(w, r)
			})
		}
	}
	data := func(change func([]byte) []byte) lie {
		return func(_ *Hostile, next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, wire.PathTools) {
					next.ServeHTTP(w, r)
					return
				}
				honest := httptest.NewRecorder()
				next.ServeHTTP(honest, r)
				_, _ = w.Write(change(bytes.Clone(honest.Body.Bytes())))
			})
		}
	}
	field := func(name string, value func(h *Hostile) any) lie {
		return address(func(h *Hostile, m map[string]any) { m[name] = value(h) })
	}
	list := modes(OnRetrieve, 5, sdk.ErrCorrupt, lies{
		"raw: bit":           data(func(b []byte) []byte { b[1000] ^= 1; return b }),
		"raw: truncated":     data(func(b []byte) []byte { return b[:len(b)-1] }),
		"raw: appended":      data(func(b []byte) []byte { return append(b, 0) }),
		"raw: nothing":       data(func(b []byte) []byte { return b[:0] }),
		"raw: no address":    field("data_url", func(*Hostile) any { return "" }),
		"raw: size negative": field("data_size", func(*Hostile) any { return -1 }),
		"raw: size 0":        field("data_size", func(*Hostile) any { return 0 }),
		"raw: size off":      field("data_size", func(h *Hostile) any { return len(h.Content) + format.Overhead - 1 }),
	})
	list = append(list, modes(OnRetrieve, 8, sdk.ErrCorrupt, lies{"raw: size 2^62": field("data_size", func(*Hostile) any { return int64(1) << 62 })})...)
	list = append(list, modes(OnRetrieve, 10, sdk.ErrCorrupt, lies{
		"raw: another host": field("data_url", func(h *Hostile) any { return h.other.URL + "/x" }),
		"raw: another host, no scheme": field("data_url", func(h *Hostile) any {
			return strings.TrimPrefix(h.other.URL, "http:") + "/x"
		}),
		"raw: backslashes": field("data_url", func(h *Hostile) any { return `/\` + strings.TrimPrefix(h.other.URL, "http://") }),
		"raw: at sign":     field("data_url", func(h *Hostile) any { return "@" + strings.TrimPrefix(h.other.URL, "http://") + "/x" }),
	})...)
	list = append(list, modes(OnRetrieve, 10, sdk.ErrOther, lies{
		"raw: redirect": func(h *Hostile, next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasPrefix(r.URL.Path, wire.PathTools) {
					next = redirect(307)(h, next)
				}
				next.ServeHTTP(w, r)
			})
		},
	})...)
	for i := range list {
		list[i].raw = true
	}
	return list
}

func uploadModes() []Mode {
	at := func(op string, tell lie) lie {
		return func(h *Hostile, next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == wire.PathTools+op {
					tell(h, next).ServeHTTP(w, r)
					return
				}
				next.ServeHTTP(w, r)
			})
		}
	}
	field := func(op, name string, v any) lie {
		return at(op, changed(func(_ *Hostile, m map[string]any) { m[name] = v }))
	}
	list := modes(OnUpload, 11, sdk.ErrCorrupt, lies{
		"upload: key of 16 bytes": field(wire.OpPrepareUpload, "key", encode64(make([]byte, 16))),
		"upload: key of 24 bytes": field(wire.OpPrepareUpload, "key", encode64(bytes.Repeat([]byte{1}, 24))),
		"upload: key of 31 bytes": field(wire.OpPrepareUpload, "key", encode64(bytes.Repeat([]byte{1}, 31))),
		"upload: zero key":        field(wire.OpPrepareUpload, "key", encode64(make([]byte, 32))),
		"upload: no id":           field(wire.OpPrepareUpload, "upload_id", ""),
		"upload: id a number":     field(wire.OpPrepareUpload, "upload_id", 7),
		"upload: reused key":      reusedKey(),
	})
	list = append(list, modes(OnUpload, 13, sdk.ErrCorrupt, lies{
		"finalize: wrong hash":   field(wire.OpFinalizeUpload, "file_hash", strings.Repeat("0", 64)),
		"finalize: no hash":      field(wire.OpFinalizeUpload, "file_hash", ""),
		"finalize: no reference": at(wire.OpFinalizeUpload, changed(func(_ *Hostile, m map[string]any) { m["location"], m["cid"] = "", "" })),
		"finalize: empty":        at(wire.OpFinalizeUpload, said(200, `{"result":{}}`)),
		"finalize: null":         at(wire.OpFinalizeUpload, said(200, `{"result":null}`)),
	})...)
	return slices.Concat(list,
		modes(OnUpload, 13, sdk.ErrUnavailable, lies{"finalize: HTML": at(wire.OpFinalizeUpload, said(200, page))}),
		modes(OnUpload, 13, sdk.ErrInsufficient, lies{"finalize: refused": at(wire.OpFinalizeUpload, said(402, `{"error":"Insufficient","code":"INSUFFICIENT"}`))}),
		modes(OnUpload, 8, sdk.ErrCorrupt, lies{"finalize: deep": at(wire.OpFinalizeUpload, said(200, strings.Repeat(`[`, 1_000_000)))}),
		modes(OnUpload, 4, sdk.ErrOther, lies{"finalize: echo": at(wire.OpFinalizeUpload, echo)}),
		modes(OnUpload, 10, sdk.ErrOther, lies{"finalize: redirect": at(wire.OpFinalizeUpload, redirect(307)), "upload: redirect": at(wire.OpPrepareUpload, redirect(302))}))
}

// reusedKey hands out one key for every upload from the second on: the first of
// them succeeds, as a client cannot know better.
func reusedKey() lie {
	var mu sync.Mutex
	var first any
	return changed(func(_ *Hostile, m map[string]any) {
		mu.Lock()
		defer mu.Unlock()
		if m["key"] == nil {
			return
		}
		if first == nil {
			first = m["key"]
		}
		m["key"] = first
	})
}

func listModes() []Mode {
	row := func(extra string) lie {
		return said(200, `{"result":[{"ipfs_hash":"r","file_hash":"`+strings.Repeat("ab", 32)+`",`+extra+`}]}`)
	}
	return slices.Concat(
		modes(OnList, 7, sdk.ErrCorrupt, lies{
			"list: null": said(200, `{"result":null}`), "list: an object": said(200, `{"result":{"a":1}}`), "list: a string": said(200, `{"result":"x"}`),
			"list: numbers":       said(200, `{"result":[1,2]}`),
			"list: hash a number": said(200, `{"result":[{"ipfs_hash":"r","file_hash":7}]}`), "list: size a string": row(`"original_size":"7"`),
			"list: deleted a string": row(`"deleted":"yes"`), "list: name an object": row(`"filename":{}`),
			"list: attributes an object": row(`"attributes":{"mtime":"5"}`),
		}),
		modes(OnList, 8, sdk.ErrCorrupt, lies{
			"list: size 2^70":         row(`"original_size":1180591620717411303424`),
			"list: deep":              said(200, `{"result":`+strings.Repeat("[", 100_000)),
			"list: endless":           endless(`{"result":[`, strings.Repeat(`{},`, 1<<14), 0),
			"list: huge, empty rows":  many(`{"result":[`, `{},`, 2_000_000, `{}]}`),
			"list: huge, short rows":  many(`{"result":[`, `{"ipfs_hash":"r"},`, 500_000, `{}]}`),
			"list: huge, null rows":   many(`{"result":[`, `null,`, 1_500_000, `null]}`),
			"list: huge, many fields": many(`{`, `"a":1,`, 2_000_000, `"result":7}`),
		}),
		modes(OnList, 7, sdk.ErrUnavailable, lies{"list: HTML": said(200, page)}),
		modes(OnList, 4, sdk.ErrOther, lies{"list: echo": echo}),
		modes(OnList, 10, sdk.ErrOther, lies{"list: redirect": redirect(302)}),
		passing(OnList, 7, lies{
			"list: hash not hex": row(`"file_hash":"zz"`), "list: null rows": said(200, `{"result":[null,{}]}`), "list: size negative": row(`"original_size":-5`),
			"list: times not numbers": row(`"timestamp":"tomorrow","deleted":{"deleted_at":"x"}`), "list: evil name": row(`"filename":"../../etc/passwd\u0000"`),
			"list: attributes of no form": row(`"attributes":"{\"mtime\":5}"`), "list: attributes with NUL": row(`"content_type":"inode/symlink","attributes":"{\"target\":\"a\\u0000\"}"`),
			"list: attributes without end": row(`"attributes":"` + strings.Repeat("[", 1<<20) + `"`), "list: link to other content": row(`"content_type":"inode/symlink","attributes":"{\"target\":\"/etc/passwd\"}"`),
		}))
}

func tokenModes() []Mode {
	return slices.Concat(
		modes(OnToken, 4, sdk.ErrOther, lies{"token: echo": echo}),
		modes(OnToken, 10, sdk.ErrOther, lies{"token: redirect 302": redirect(302), "token: redirect 307": redirect(307)}),
		modes(OnToken, 7, sdk.ErrOther, lies{"token: HTML 500": said(500, page)}),
		modes(OnToken, 7, sdk.ErrUnauthenticated, lies{
			"token: refused": said(401, `{"error":"Invalid API key"}`), "token: none": said(200, `{"expires_in":"24h"}`), "token: two lines": said(200, `{"token":"session.x\r\nX-Evil: 1"}`),
			"token: useless": changed(func(_ *Hostile, m map[string]any) { m["token"] = "x" }),
		}),
		modes(OnToken, 8, sdk.ErrUnauthenticated, lies{"token: huge": said(200, `{"token":"`+strings.Repeat("session.", 10_000)+`"}`)}),
		modes(OnToken, 7, sdk.ErrNotFound, lies{"token: no account": said(404, `{"error":"account not found"}`)}),
		modes(OnToken, 7, sdk.ErrCorrupt, lies{"token: a number": said(200, `{"token":7}`)}),
		modes(OnToken, 7, sdk.ErrUnavailable, lies{"token: HTML": said(200, page)}),
		modes(OnToken, 8, sdk.ErrCorrupt, lies{"token: endless": endless(`{"token":"`, strings.Repeat(filler, 1<<12), 0)}),
		passing(OnToken, 12, lies{"token: 503 thrice": once(3, said(503, page))}))
}
