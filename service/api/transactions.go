package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/files"
)

// transactions lists the records of a group. It sends them as it reads them: clients of
// the hosted service know no pages, and a group may have hundreds of thousands of
// records.
func (s *server) transactions(w http.ResponseWriter, r *http.Request, by *auth.Session,
	read func(request any) error) error {
	var req wire.TransactionsRequest
	err := read(&req)
	coded := req.Kinds == wire.KindsChain && takesZstd(r)
	if err == nil {
		memory := int64(files.ListMemory)
		if coded {
			memory += packMemory
		}
		err = s.holdLong(r, memory)
	}
	if err != nil {
		return err
	}
	var list *rowsWriter
	send := func(rows []wire.TransactionRow) error {
		if list == nil { // nothing was refused
			w.Header().Set("Content-Type", "application/json")
			list = newRowsWriter(w)
			if coded && len(rows) >= packedRows {
				w.Header().Set("Content-Encoding", wire.CodingZstd)
				if err := list.compress(w); err != nil {
					return err
				}
			}
			_, _ = list.w.WriteString(`{"result":`) // to the buffer
		}
		return list.add(rows)
	}
	end := "}"
	if req.Kinds == wire.KindsChain {
		var proof wire.ChainProof
		if proof, err = s.Files.ListChain(r.Context(), by.Account, req, send); err == nil {
			end, err = proofText(proof)
		}
	} else {
		err = s.Files.List(r.Context(), by.Account, req, send)
	}
	if list == nil {
		return err
	}
	if err == nil {
		err = list.end(end)
	}
	if err != nil {
		s.cutOff(r, "list", err)
	}
	return nil
}

// proofText is the end of the answer after the rows of a chain.
func proofText(proof wire.ChainProof) (string, error) {
	raw, err := json.Marshal(proof)
	return `,"proof":` + string(raw) + "}", err
}

const (
	// packMemory is what compressing an answer takes, in bytes.
	packMemory = 4 * wire.PackWindowBytes
	// packedRows is the shortest list that is compressed, in rows.
	packedRows = 100
	// packedNames is the shortest proof of names whose answer is compressed, in bytes.
	packedNames = 16 << 10
)

// takesZstd reports whether a client wants an answer compressed. A weight is not looked at but for
// that of a refusal.
func takesZstd(r *http.Request) bool {
	for coding := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(strings.ReplaceAll(coding, " ", ""), ";")
		if strings.EqualFold(name, wire.CodingZstd) {
			return strings.Trim(strings.TrimPrefix(strings.ToLower(weight), "q="), "0.") != "" || weight == ""
		}
	}
	return false
}

// rowsWriter writes rows as a JSON array, one by one.
type rowsWriter struct {
	w    *bufio.Writer
	zstd *zstd.Encoder // nil = it is not compressed
	text bytes.Buffer  // of the row
	json *json.Encoder
	n    int   // rows
	size int64 // bytes of them
}

func newRowsWriter(w io.Writer) *rowsWriter {
	l := &rowsWriter{w: bufio.NewWriterSize(w, pacePiece)}
	l.json = json.NewEncoder(&l.text)
	return l
}

// compress has all that is written compressed on its way to w: quickly, so that it is no slower
// than reading the rows.
func (l *rowsWriter) compress(w io.Writer) (err error) {
	if l.zstd, err = packer(w); err == nil {
		l.w.Reset(l.zstd)
	}
	return err
}

// packer compresses, quickly, what is written on its way to w.
func packer(w io.Writer) (*zstd.Encoder, error) {
	return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(wire.PackWindowBytes), zstd.WithLowerEncoderMem(true))
}

func (l *rowsWriter) add(rows []wire.TransactionRow) error {
	for i := range rows {
		l.text.Reset()
		if err := l.json.Encode(&rows[i]); err != nil {
			return err
		}
		raw := bytes.TrimSuffix(l.text.Bytes(), []byte("\n"))
		before := byte(',')
		if l.n == 0 {
			before = '['
		}
		l.n, l.size = l.n+1, l.size+int64(len(raw))+1
		if err := l.w.WriteByte(before); err != nil {
			return err
		}
		if _, err := l.w.Write(raw); err != nil {
			return err
		}
	}
	return nil
}

// end ends the array and its enclosing object.
func (l *rowsWriter) end(more string) error {
	text := "]"
	if l.n == 0 {
		text = "[]"
	}
	if _, err := l.w.WriteString(text + more); err != nil {
		return err
	}
	err := l.w.Flush()
	if err == nil && l.zstd != nil {
		err = l.zstd.Close()
	}
	return err
}
