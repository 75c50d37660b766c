package testkit

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// blobOf changes the ciphertext of an inline answer.
func blobOf(change func([]byte) []byte) Mutation {
	return changed(func(_ *World, m map[string]any) {
		blob, err := base64.StdEncoding.DecodeString(m["encrypted_b64"].(string))
		if err != nil {
			panic(err)
		}
		m["encrypted_b64"] = encode64(change(blob))
	})
}

func flip(at int) Mutation {
	return blobOf(func(b []byte) []byte { b[(at+len(b))%len(b)] ^= 1; return b })
}

// without leaves a field out.
func without(name string) Mutation {
	return changed(func(_ *World, m map[string]any) { delete(m, name) })
}

func blobLies() []Lie {
	text := func(change func(string) any) Mutation {
		return changed(func(_ *World, m map[string]any) { m["encrypted_b64"] = change(m["encrypted_b64"].(string)) })
	}
	return lies(Lie{On: OnRetrieve, Threat: 5, Path: retrievePath, Want: sdk.ErrCorrupt}, told{
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
		"other file": changed(func(h *World, m map[string]any) {
			m["key"], m["encrypted_b64"] = sealed([]byte("another file"))
		}),
		"older version": changed(func(h *World, m map[string]any) {
			m["key"], m["encrypted_b64"] = sealed(append(bytes.Clone(h.Content[:len(h.Content)-1]), '!'))
		}),
		"empty file": changed(func(h *World, m map[string]any) { m["key"], m["encrypted_b64"] = sealed(nil) }),
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

func keyLies() []Lie {
	key := func(v any) Mutation {
		return changed(func(_ *World, m map[string]any) { m["key"] = v })
	}
	of := func(n int) any { return encode64(bytes.Repeat([]byte{9}, n)) }
	return lies(Lie{On: OnRetrieve, Threat: 5, Path: retrievePath, Want: sdk.ErrCorrupt}, told{
		"key of 16 bytes": key(of(16)), "key of 24 bytes": key(of(24)), "key of 31 bytes": key(of(31)),
		"key of 33 bytes": key(of(33)),
		"wrong key":       key(of(32)), "zero key": key(encode64(make([]byte, 32))), "no key": without("key"),
		"empty key": key(""), "key a number": key(1), "key unpadded": key(strings.TrimRight(of(32).(string), "=")),
	})
}

func metadataLies() []Lie {
	deflated := func(size any, change func([]byte) []byte) Mutation {
		return changed(func(h *World, m map[string]any) {
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
	meta := func(v any) Mutation {
		return changed(func(_ *World, m map[string]any) { m["format"] = v })
	}
	list := lies(Lie{On: OnRetrieve, Threat: 5, Path: retrievePath, Want: sdk.ErrCorrupt}, told{
		"stripped compression": changed(func(h *World, m map[string]any) {
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
	list = append(list, lies(Lie{On: OnRetrieve, Threat: 8, Path: retrievePath, Want: sdk.ErrCorrupt}, told{
		"size 2^62":   deflated(int64(1)<<62, as),
		"format huge": meta(map[string]any{"x": strings.Repeat("x", 1<<20)}),
		"bomb": changed(func(h *World, m map[string]any) {
			m["key"], m["encrypted_b64"] = sealed(bomb())
			m["format"] = map[string]any{"version": 1, "compression": "deflate", "original_size": len(h.Content)}
		}),
	})...)
	list = append(list, lies(Lie{On: OnRetrieve, Threat: 5, Path: retrievePath, Want: sdk.ErrUnsupported}, told{
		"unknown version":     meta(map[string]any{"version": 3}),
		"version a string":    meta(map[string]any{"version": "1"}),
		"unknown compression": meta(map[string]any{"version": 1, "compression": "brotli"}),
	})...)
	list = append(list, lies(Lie{On: OnRetrieve, Threat: 4, Path: retrievePath, Want: sdk.ErrUnsupported}, told{
		"token as version": func(h *World, next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				changed(func(_ *World, m map[string]any) {
					m["format"] = map[string]any{"version": r.Header.Get("Authorization")}
				})(h, next).ServeHTTP(w, r)
			})
		},
	})...)
	return append(list, lies(Lie{On: OnRetrieve, Threat: 8, Path: retrievePath, Want: sdk.ErrTooLarge}, told{
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
func once(n int32, tell Mutation) Mutation {
	var told atomic.Int32
	return func(h *World, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if told.Add(1) > n {
				next.ServeHTTP(w, r)
				return
			}
			tell(h, next).ServeHTTP(w, r)
		})
	}
}

func redirect(status int) Mutation {
	return func(h *World, _ http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, h.other.URL+r.URL.Path, status)
		})
	}
}

// cut breaks the connection behind a part of the honest answer.
func cut(_ *World, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		honest := record(next, r)
		w.Header().Set("Content-Length", "1000000")
		_, _ = w.Write(honest.Body.Bytes()[:honest.Body.Len()/2])
		panic(http.ErrAbortHandler)
	})
}

// endless sends head, then filler until the client leaves.
func endless(head, filler string, pause time.Duration) Mutation {
	return func(h *World, _ http.Handler) http.Handler {
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
func many(head, item string, n int, tail string) Mutation {
	return answers(func(w http.ResponseWriter, _ *http.Request) {
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

// echo repeats the request's secrets in an error.
func echo(_ *World, _ http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bearer := r.Header.Get("Authorization")
		text := "bad request: " + bearer + " / " + strings.TrimPrefix(bearer, "Bearer ") + " / " +
			r.Header.Get(wire.HeaderAPIKey) + "\x1b[2J\n\u202e"
		writeJSON(w, http.StatusInternalServerError, wire.Error{Error: text})
	})
}

const filler = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

const page = `<!doctype html><html><script>alert("x")</script><h1>Bad gateway</h1></html>`

func transportLies() []Lie {
	big := strings.Repeat(filler, 1<<12)
	ends := func(threat int, want sdk.Kind) Lie {
		return Lie{On: OnRetrieve, Threat: threat, Path: retrievePath, Want: want}
	}
	return slices.Concat(
		lies(ends(7, sdk.ErrCorrupt), told{"null result": said(200, `{"result":null}`),
			"result a list": said(200, `{"result":[1]}`), "no body": said(200, ""),
			"half a document": said(200, `{"result":{"key":"`),
			"two documents":   said(200, `{"result":{}}{"result":{}}`)}),
		lies(ends(7, sdk.ErrUnavailable), told{"HTML": said(200, page)}),
		lies(ends(7, sdk.ErrOther), told{"HTML 500": said(500, page), "error an object": said(500, `{"error":{"a":1}}`),
			"error in a success": said(200, `{"error":"no reason given"}`)}),
		lies(ends(8, sdk.ErrCorrupt), told{"deep JSON": said(200, strings.Repeat(`{"result":`, 100_000)),
			"deep list":     said(200, `{"result":`+strings.Repeat(`[`, 1_000_000)),
			"endless text":  endless(`{"result":{"key":"`, big, 0),
			"endless names": endless(`{"result":{"`, big, 0),
			"endless list":  endless(`{"result":[`, strings.Repeat("1,", 1<<16), 0)}),
		lies(ends(8, sdk.ErrTooLarge), told{"endless data": endless(`{"result":{"encrypted_b64":"`, big, 0)}),
		lies(ends(8, sdk.ErrTimeout),
			told{"slow data": endless(`{"result":{"encrypted_b64":"`, "AAAA", 20*time.Millisecond)}),
		lies(ends(4, sdk.ErrOther), told{"echo": echo}),
		lies(ends(10, sdk.ErrOther), told{"redirect 302": redirect(302), "redirect 307": redirect(307),
			"redirect 308": redirect(308)}),
		lies(ends(10, sdk.ErrCorrupt), told{"another host in place of data": elsewhere("http:"),
			"another host in place of data, no scheme": elsewhere("")}),
		lies(ends(12, sdk.ErrUnavailable), told{"cut": cut, "503": said(503, page), "502": said(502, page)}),
		lies(ends(12, sdk.ErrTooLarge), told{"413": said(413, `{"error":"request too large"}`)}),
		lies(ends(12, sdk.ErrUnauthenticated),
			told{"401 forever": said(401, `{"error":"Auth failed: invalid session token"}`)}),
		lies(ends(12, sdk.ErrAudience),
			told{"wrong audience": said(401, `{"error":"Auth failed: Audience mismatch"}`)}),
		lies(ends(12, sdk.ErrNotAuthorized), told{"403": said(403, `{"error":"User not authorized"}`),
			"403 of the key server": said(500, `{"error":"Shade retrieve failed: 403 - {\"error\":\"Unauthorized\"}"}`),
			"long panic": said(500, `{"error":"`+strings.Repeat("ActionError ",
				100)+`Smart contract panicked: User not authorized"}`)}),
		lies(ends(12, sdk.ErrInsufficient), told{"402": said(402, `{"error":"Insufficient balance"}`),
			"no money, 500": said(500, `{"error":"Insufficient balance"}`)}),
		lies(ends(12, sdk.ErrDeleted),
			told{"deleted": said(500, `{"error":"Shade retrieve failed: 404 - File deleted"}`)}),
		lies(ends(12, sdk.ErrNotFound),
			told{"404": said(404, `{"error":"No key for this file","code":"FILE_KEY_NOT_FOUND"}`),
				"no such file, 500": said(500, `{"error":"FILE_KEY_NOT_FOUND No key for this file"}`)}),
		lies(ends(12, sdk.ErrRateLimited), told{"429": said(429, `{"error":"too many requests"}`)}),
		lies(ends(12, sdk.ErrStorageFull), told{"507": said(507, `{"error":"no room","code":"STORAGE_FULL"}`)}),
		lies(Lie{On: OnRetrieve, Threat: 12, Path: retrievePath, Survives: true}, told{
			"wrong audience once": once(1, said(401, `{"error":"Auth failed: Audience mismatch"}`)),
			"401 once":            once(1, said(401, `{"error":"Auth failed: invalid session token"}`)),
			"503 thrice":          once(3, said(503, page)),
			"cut once":            once(1, cut),
			"429 with Retry-After": once(1, answers(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "1")
				writeJSON(w, http.StatusTooManyRequests, wire.Error{Error: "too many requests"})
			})),
		}))
}

// elsewhere names the address of another host in place of the data.
func elsewhere(scheme string) Mutation {
	return changed(func(h *World, m map[string]any) {
		delete(m, "encrypted_b64")
		m["data_url"], m["data_size"] = scheme+strings.TrimPrefix(h.other.URL, "http:")+"/x", 100
	})
}

// rawLies are about data that travels beside the JSON.
func rawLies() []Lie {
	answered := func(threat int) Lie {
		return Lie{On: OnRetrieve, Large: true, Threat: threat, Path: retrievePath, Want: sdk.ErrCorrupt}
	}
	sent := func(threat int, want sdk.Kind) Lie {
		return Lie{On: OnRetrieve, Large: true, Threat: threat, Path: wire.PathReadBlob + "*", Want: want}
	}
	data := func(change func([]byte) []byte) Mutation {
		return func(_ *World, next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = w.Write(change(bytes.Clone(record(next, r).Body.Bytes())))
			})
		}
	}
	field := func(name string, value func(h *World) any) Mutation {
		return changed(func(h *World, m map[string]any) { m[name] = value(h) })
	}
	return slices.Concat(
		lies(sent(5, sdk.ErrCorrupt), told{
			"raw: bit":       data(func(b []byte) []byte { b[1000] ^= 1; return b }),
			"raw: truncated": data(func(b []byte) []byte { return b[:len(b)-1] }),
			"raw: appended":  data(func(b []byte) []byte { return append(b, 0) }),
			"raw: nothing":   data(func(b []byte) []byte { return b[:0] }),
		}),
		lies(answered(5), told{
			"raw: no address":    field("data_url", func(*World) any { return "" }),
			"raw: size negative": field("data_size", func(*World) any { return -1 }),
			"raw: size 0":        field("data_size", func(*World) any { return 0 }),
			"raw: size off": field("data_size",
				func(h *World) any { return len(h.Content) + format.Overhead - 1 }),
		}),
		lies(answered(8), told{"raw: size 2^62": field("data_size", func(*World) any { return int64(1) << 62 })}),
		lies(answered(10), told{
			"raw: another host": field("data_url", func(h *World) any { return h.other.URL + "/x" }),
			"raw: another host, no scheme": field("data_url", func(h *World) any {
				return strings.TrimPrefix(h.other.URL, "http:") + "/x"
			}),
			"raw: backslashes": field("data_url",
				func(h *World) any { return `/\` + strings.TrimPrefix(h.other.URL, "http://") }),
			"raw: at sign": field("data_url",
				func(h *World) any { return "@" + strings.TrimPrefix(h.other.URL, "http://") + "/x" }),
		}),
		lies(sent(10, sdk.ErrOther), told{"raw: redirect": redirect(307)}))
}

func uploadLies() []Lie {
	at := func(op string, threat int, want sdk.Kind) Lie {
		return Lie{On: OnUpload, Threat: threat, Path: wire.PathTools + op, Want: want}
	}
	const prepare, finalize = wire.OpPrepareUpload, wire.OpFinalizeUpload
	field := func(name string, v any) Mutation {
		return changed(func(_ *World, m map[string]any) { m[name] = v })
	}
	return slices.Concat(
		lies(at(prepare, 11, sdk.ErrCorrupt), told{
			"upload: key of 16 bytes": field("key", encode64(make([]byte, 16))),
			"upload: key of 24 bytes": field("key", encode64(bytes.Repeat([]byte{1}, 24))),
			"upload: key of 31 bytes": field("key", encode64(bytes.Repeat([]byte{1}, 31))),
			"upload: zero key":        field("key", encode64(make([]byte, 32))),
			"upload: no id":           field("upload_id", ""),
			"upload: id a number":     field("upload_id", 7),
			"upload: reused key":      reusedKey(),
		}),
		lies(at(finalize, 13, sdk.ErrCorrupt), told{
			"finalize: wrong hash":   field("file_hash", strings.Repeat("0", 64)),
			"finalize: no hash":      field("file_hash", ""),
			"finalize: no reference": changed(func(_ *World, m map[string]any) { m["location"], m["cid"] = "", "" }),
			"finalize: empty":        said(200, `{"result":{}}`),
			"finalize: null":         said(200, `{"result":null}`),
		}),
		lies(at(finalize, 13, sdk.ErrUnavailable), told{"finalize: HTML": said(200, page)}),
		lies(at(finalize, 13, sdk.ErrInsufficient),
			told{"finalize: refused": said(402, `{"error":"Insufficient","code":"INSUFFICIENT"}`)}),
		lies(at(finalize, 8, sdk.ErrCorrupt), told{"finalize: deep": said(200, strings.Repeat(`[`, 1_000_000))}),
		lies(at(finalize, 4, sdk.ErrOther), told{"finalize: echo": echo}),
		lies(at(finalize, 10, sdk.ErrOther), told{"finalize: redirect": redirect(307)}),
		lies(at(prepare, 10, sdk.ErrOther), told{"upload: redirect": redirect(302)}))
}

// reusedKey hands out one key for every upload from the second on: the first of
// them succeeds, as a client cannot know better.
func reusedKey() Mutation {
	var mu sync.Mutex
	var first any
	return changed(func(_ *World, m map[string]any) {
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

func listLies() []Lie {
	row := func(extra string) Mutation {
		return said(200, `{"result":[{"ipfs_hash":"r","file_hash":"`+strings.Repeat("ab", 32)+`",`+extra+`}]}`)
	}
	return slices.Concat(
		lies(Lie{On: OnList, Threat: 7, Path: listPath, Want: sdk.ErrCorrupt}, told{
			"list: null": said(200, `{"result":null}`), "list: an object": said(200, `{"result":{"a":1}}`),
			"list: a string":         said(200, `{"result":"x"}`),
			"list: numbers":          said(200, `{"result":[1,2]}`),
			"list: hash a number":    said(200, `{"result":[{"ipfs_hash":"r","file_hash":7}]}`),
			"list: size a string":    row(`"original_size":"7"`),
			"list: deleted a string": row(`"deleted":"yes"`), "list: name an object": row(`"filename":{}`),
			"list: attributes an object": row(`"attributes":{"mtime":"5"}`),
		}),
		lies(Lie{On: OnList, Threat: 8, Path: listPath, Want: sdk.ErrCorrupt}, told{
			"list: size 2^70":         row(`"original_size":1180591620717411303424`),
			"list: deep":              said(200, `{"result":`+strings.Repeat("[", 100_000)),
			"list: endless":           endless(`{"result":[`, strings.Repeat(`{},`, 1<<14), 0),
			"list: huge, empty rows":  many(`{"result":[`, `{},`, 2_000_000, `{}]}`),
			"list: huge, short rows":  many(`{"result":[`, `{"ipfs_hash":"r"},`, 500_000, `{}]}`),
			"list: huge, null rows":   many(`{"result":[`, `null,`, 1_500_000, `null]}`),
			"list: huge, many fields": many(`{`, `"a":1,`, 2_000_000, `"result":7}`),
		}),
		lies(Lie{On: OnList, Threat: 7, Path: listPath, Want: sdk.ErrUnavailable}, told{"list: HTML": said(200, page)}),
		lies(Lie{On: OnList, Threat: 4, Path: listPath, Want: sdk.ErrOther}, told{"list: echo": echo}),
		lies(Lie{On: OnList, Threat: 10, Path: listPath, Want: sdk.ErrOther}, told{"list: redirect": redirect(302)}),
		lies(Lie{On: OnList, Threat: 7, Path: listPath, Survives: true}, told{
			"list: hash not hex": row(`"file_hash":"zz"`), "list: null rows": said(200, `{"result":[null,{}]}`),
			"list: size negative":         row(`"original_size":-5`),
			"list: times not numbers":     row(`"timestamp":"tomorrow","deleted":{"deleted_at":"x"}`),
			"list: evil name":             row(`"filename":"../../etc/passwd\u0000"`),
			"list: attributes of no form": row(`"attributes":"{\"mtime\":5}"`),
			"list: attributes with NUL": row(
				`"content_type":"inode/symlink","attributes":"{\"target\":\"a\\u0000\"}"`),
			"list: attributes without end": row(`"attributes":"` + strings.Repeat("[", 1<<20) + `"`),
			"list: link to other " +
				"content": row(`"content_type":"inode/symlink","attributes":"{\"target\":\"/etc/passwd\"}"`),
		}))
}

func tokenLies() []Lie {
	return slices.Concat(
		lies(Lie{On: OnToken, Threat: 4, Path: wire.PathSessionToken, Want: sdk.ErrOther}, told{"token: echo": echo}),
		lies(Lie{On: OnToken, Threat: 10, Path: wire.PathSessionToken, Want: sdk.ErrOther},
			told{"token: redirect 302": redirect(302), "token: redirect 307": redirect(307)}),
		lies(Lie{On: OnToken, Threat: 7, Path: wire.PathSessionToken, Want: sdk.ErrOther},
			told{"token: HTML 500": said(500, page)}),
		lies(Lie{On: OnToken, Threat: 7, Path: wire.PathSessionToken, Want: sdk.ErrUnauthenticated}, told{
			"token: refused":   said(401, `{"error":"Invalid API key"}`),
			"token: none":      said(200, `{"expires_in":"24h"}`),
			"token: two lines": said(200, `{"token":"session.x\r\nX-Evil: 1"}`),
			"token: useless":   changed(func(_ *World, m map[string]any) { m["token"] = "x" }),
		}),
		lies(Lie{On: OnToken, Threat: 8, Path: wire.PathSessionToken, Want: sdk.ErrUnauthenticated},
			told{"token: huge": said(200, `{"token":"`+strings.Repeat("session.", 10_000)+`"}`)}),
		lies(Lie{On: OnToken, Threat: 7, Path: wire.PathSessionToken, Want: sdk.ErrNotFound},
			told{"token: no account": said(404, `{"error":"account not found"}`)}),
		lies(Lie{On: OnToken, Threat: 7, Path: wire.PathSessionToken, Want: sdk.ErrCorrupt},
			told{"token: a number": said(200, `{"token":7}`)}),
		lies(Lie{On: OnToken, Threat: 7, Path: wire.PathSessionToken, Want: sdk.ErrUnavailable},
			told{"token: HTML": said(200, page)}),
		lies(Lie{On: OnToken, Threat: 8, Path: wire.PathSessionToken, Want: sdk.ErrCorrupt},
			told{"token: endless": endless(`{"token":"`, strings.Repeat(filler, 1<<12), 0)}),
		lies(Lie{On: OnToken, Threat: 12, Path: wire.PathSessionToken, Survives: true},
			told{"token: 503 thrice": once(3, said(503, page))}))
}
