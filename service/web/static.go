package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strconv"
	"time"
)

//go:embed static
var static embed.FS

// types of the static files; guessing would depend on the machine.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

// staticFiles serves each embedded file under its name, and index.html as the page.
func staticFiles() (map[string]http.HandlerFunc, error) {
	entries, err := static.ReadDir("static")
	if err != nil {
		return nil, err
	}
	handlers := make(map[string]http.HandlerFunc, len(entries))
	for _, e := range entries {
		raw, err := static.ReadFile("static/" + e.Name())
		if err != nil {
			return nil, err
		}
		name := e.Name()
		if name == "index.html" {
			name = "{$}"
		}
		handlers["GET "+Path+name] = serveStatic(raw, types[path.Ext(e.Name())])
	}
	return handlers, nil
}

func serveStatic(raw []byte, contentType string) http.HandlerFunc {
	sum := sha256.Sum256(raw)
	tag := strconv.Quote(hex.EncodeToString(sum[:8]))
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Cache-Control", "no-cache") // kept, but asked for again
		w.Header().Set("ETag", tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(raw))
	}
}
