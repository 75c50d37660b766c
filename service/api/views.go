package api

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/files"
)

const (
	// maxView bounds the answer of a view, in bytes: any client may ask for it, and on
	// the wire it is up to four times as long. A page of files with usual names fits.
	maxView = 4 << 20
	// valueMemory bounds the memory of a value that is not a list of files: the longest
	// are all members of a group.
	valueMemory = 2 << 20
)

// filesOf is a group whose files a view returns, in upload order.
type filesOf string

// writeView answers the value of a view. It has written nothing when it returns an
// error. A list of files is read twice: first to learn that it is not too long for an
// anonymous caller, then piece by piece while it is sent.
func (s *server) writeView(r *http.Request, w http.ResponseWriter, id json.RawMessage, value any) error {
	group, isList := value.(filesOf)
	if isList {
		if err := s.holdLong(r, files.ListMemory); err != nil {
			return err
		}
		done, err := s.turn(r.Context())
		if err != nil {
			return err
		}
		size, err := s.writeFiles(r, io.Discard, string(group))
		done()
		if err != nil {
			return err
		}
		s.clients.answered(traceOf(r.Context()).client, size)
		answer := beginView(w, id)
		if _, err := s.writeFiles(r, answer, string(group)); err != nil {
			s.cutOff(r, "view", err)
		}
		return answer.end()
	}
	if _, isLong := value.([]string); isLong { // any other is shorter than a request
		if err := s.holdLong(r, valueMemory); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	s.clients.answered(traceOf(r.Context()).client, int64(len(raw)))
	answer := beginView(w, id)
	_, _ = answer.Write(raw)
	return answer.end()
}

// writeFiles writes the files of an open group as JSON and returns the length, or
// refuses a list that is too long for an anonymous caller.
func (s *server) writeFiles(r *http.Request, w io.Writer, group string) (size int64, err error) {
	list := newRowsWriter(w)
	err = s.Files.List(r.Context(), "", wire.TransactionsRequest{GroupID: group},
		func(rows []wire.TransactionRow) error {
			if err := list.add(rows); err != nil {
				return err
			}
			if list.n > wire.MaxPageRows || list.size > maxView {
				return fault.New(wire.CodeTooLarge,
					"the group has more than %d files, or their names are longer than %d "+
						"bytes together: "+
						"sign in and ask get_group_transactions with after_seq and limit", wire.MaxPageRows, maxView)
			}
			return nil
		})
	if err == nil {
		err = list.end("")
	}
	return list.size, err
}

// viewWriter writes the bytes of a view as the network encodes them: as an array of
// numbers.
type viewWriter struct {
	w     *bufio.Writer
	begun bool
}

// beginView begins the answer of a view.
func beginView(w http.ResponseWriter, id json.RawMessage) *viewWriter {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	w.Header().Set("Content-Type", "application/json")
	v := &viewWriter{w: bufio.NewWriterSize(w, pacePiece)}
	_, _ = v.w.WriteString(`{"jsonrpc":"2.0","id":` + string(id) +
		`,"result":{"logs":[],"block_height":1,"block_hash":"` + noBlockHash + `","result":[`)
	return v
}

// Write writes 1,2,… after the bytes before.
func (v *viewWriter) Write(p []byte) (int, error) {
	var number [4]byte
	for i, b := range p {
		text := number[:0]
		if v.begun {
			text = append(text, ',')
		}
		v.begun = true
		if _, err := v.w.Write(strconv.AppendUint(text, uint64(b), 10)); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

// end ends the answer. An error means that the caller is gone.
func (v *viewWriter) end() error {
	_, _ = v.w.WriteString("]}}")
	_ = v.w.Flush()
	return nil
}
