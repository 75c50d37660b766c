package api

import (
	"encoding/json"
	"net/http"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/files"
)

// transactions lists the records of a group. More than a piece of them are sent as
// they are read: the hosted service's clients know no pages, and a group may have
// hundreds of thousands.
func (s *server) transactions(w http.ResponseWriter, r *http.Request) {
	account, req, err := asked[wire.TransactionsRequest](s, w, r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	if err := s.holdMemory(r, files.ListMemory); err != nil {
		s.refuse(w, r, err)
		return
	}
	list := &rowsWriter{w: w}
	err = s.Files.List(r.Context(), account, req, list.add)
	switch {
	case err == nil:
		list.end()
	case !list.begun:
		s.refuse(w, r, err)
	default:
		s.cutOff(r, "list", err)
	}
}

// rowsWriter answers a list of rows: of one piece as every result, longer ones
// piece by piece.
type rowsWriter struct {
	w     http.ResponseWriter
	first []wire.TransactionRow // held back until it is known whether more follow
	begun bool
}

func (l *rowsWriter) add(rows []wire.TransactionRow) error {
	if l.first == nil {
		l.first = rows
		return nil
	}
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", "application/json")
		if _, err := l.w.Write([]byte(`{"result":`)); err != nil {
			return err
		}
		if err := l.write('[', l.first); err != nil {
			return err
		}
	}
	return l.write(',', rows)
}

// write sends rows with a bracket or comma before the first.
func (l *rowsWriter) write(before byte, rows []wire.TransactionRow) error {
	if len(rows) == 0 {
		return nil
	}
	raw, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	raw[0] = before
	_, err = l.w.Write(raw[:len(raw)-1])
	return err
}

func (l *rowsWriter) end() {
	if !l.begun {
		result(l.w, l.first)
		return
	}
	_, _ = l.w.Write([]byte("]}")) // the caller may be gone
}
