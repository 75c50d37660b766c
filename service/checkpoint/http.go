package checkpoint

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/store"
)

const (
	// height is log2 of the width of a tile (c2sp.org/tlog-tiles).
	height = 8
	width  = 1 << height
	// maxWait bounds how long a checkpoint request waits for the newest rows.
	maxWait = 3 * time.Second
	// entrySize of a record in an entry bundle: its hash, with the length in front.
	entrySize = 2 + tlog.HashSize
)

// Handler serves checkpoint, tiles and verifier key below [wire.PathTlog]. It needs no
// authentication: they hold hashes only.
func (l *Log) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+wire.PathTlog+"checkpoint", l.serveCheckpoint)
	mux.HandleFunc("GET "+wire.PathTlog+"key", l.serveKey)
	mux.HandleFunc("GET "+wire.PathTlog+"tile/{tile...}", l.serveTile)
	return mux
}

// serveCheckpoint answers a checkpoint of everything that was recorded before
// the request came, so that no process shows an older tree than another did. A
// ledger that cannot be followed answers the last one that was signed.
func (l *Log) serveCheckpoint(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), maxWait)
	defer cancel()
	_ = l.Update(ctx) // Run reports it
	newest, _ := l.newest()
	if newest.Note == nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "no checkpoint has been signed yet: ask again in a moment", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(newest.Note)
}

func (l *Log) serveKey(w http.ResponseWriter, _ *http.Request) {
	key, err := l.VerifierKey()
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, key)
}

// errNoTile is a tile outside the signed tree.
var errNoTile = errors.New("no such tile")

func (l *Log) serveTile(w http.ResponseWriter, r *http.Request) {
	data, err := l.tile(r.Context(), r.PathValue("tile"))
	switch {
	case errors.Is(err, errNoTile):
		http.Error(w, "not found: the signed tree has no such tile", http.StatusNotFound)
		return
	case err != nil:
		l.logger.Error("serve tile", "cause", err.Error())
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable") // a tile of one width never changes
	_, _ = w.Write(data)
}

// tile reads L/N, L/N.p/W, entries/N or entries/N.p/W of the signed tree.
func (l *Log) tile(ctx context.Context, path string) ([]byte, error) {
	// x/mod spells the same coordinates with the height and "data" in them.
	if rest, ok := strings.CutPrefix(path, "entries/"); ok {
		path = "data/" + rest
	} else if strings.HasPrefix(path, "data/") {
		return nil, errNoTile
	}
	t, err := tlog.ParseTilePath(fmt.Sprintf("tile/%d/%s", height, path))
	if err != nil {
		return nil, errNoTile
	}
	newest, file := l.newest()
	inLevel := newest.N >> (height * max(t.L, 0)) // hashes there are at this level
	if newest.Note == nil || t.N > inLevel/width || t.N*width+int64(t.W) > inLevel {
		return nil, errNoTile
	}
	if t.L < 0 {
		return l.entries(ctx, t.N*width, t.W)
	}
	return tlog.ReadTileData(t, hashReader(file))
}

// entries reads the hashes of n records after a row as an entry bundle.
func (l *Log) entries(ctx context.Context, after int64, n int) ([]byte, error) {
	bundle := make([]byte, 0, n*entrySize)
	err := l.store.Read(ctx, func(tx *store.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT hash FROM ledger WHERE seq > ? ORDER BY seq LIMIT ?", after, n)
		if err != nil {
			return fmt.Errorf("read hashes: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			var hash []byte
			if err := rows.Scan(&hash); err != nil {
				return fmt.Errorf("read hashes: %w", err)
			}
			bundle = binary.BigEndian.AppendUint16(bundle, uint16(len(hash)))
			bundle = append(bundle, hash...)
		}
		return rows.Err()
	})
	if err == nil && len(bundle) != n*entrySize {
		err = fmt.Errorf("read hashes: the ledger has %d bytes of them after row %d, want %d", len(bundle), after, n*entrySize)
	}
	return bundle, err
}
