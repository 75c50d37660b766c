package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/svcfs/svcfs/sdk/wire"
)

// direct sends single requests to svcd with nothing around them: what one round
// trip costs.
type direct struct {
	service *service
	http    *http.Client
	token   string
	refs    []string // of the small files
}

// newDirect signs in: a token of before may have been replaced by a mount's.
func newDirect(s *service) (*direct, error) {
	d := &direct{service: s, http: &http.Client{}}
	var answer wire.SessionTokenResult
	header := http.Header{}
	header.Set(wire.HeaderAPIKey, s.key)
	if err := d.post(wire.PathSessionToken, header, wire.SessionTokenRequest{AccountID: s.account},
		&answer); err != nil {
		return nil, err
	}
	d.token = answer.Token
	rows, err := d.rows(setSmall)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		d.refs = append(d.refs, row.IPFSHash)
	}
	return d, nil
}

func (d *direct) post(path string, header http.Header, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, d.service.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = header.Clone()
	req.Header.Set("Content-Type", "application/json")
	resp, err := d.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %.200s", path, resp.Status, raw)
	}
	return unwrapped(raw, answer)
}

// unwrapped decodes an answer that may lie in {"result": …}.
func unwrapped(raw []byte, answer any) error {
	var envelope struct {
		Result json.RawMessage `json:"result"`
	}
	if json.Unmarshal(raw, &envelope) == nil && len(envelope.Result) > 0 {
		raw = envelope.Result
	}
	return json.Unmarshal(raw, answer)
}

func (d *direct) tool(op string, request, answer any) error {
	return d.post(wire.PathTools+op, http.Header{"Authorization": {"Bearer " + d.token}}, request, answer)
}

// rows fetches and decodes all records of a group.
func (d *direct) rows(group string) (all []wire.TransactionRow, err error) {
	for after := int64(0); ; {
		var page []wire.TransactionRow
		if err := d.tool(wire.OpGetGroupTransactions,
			wire.TransactionsRequest{GroupID: group, AfterSeq: after, Limit: wire.MaxPageRows}, &page); err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < wire.MaxPageRows {
			return all, nil
		}
		after = page[len(page)-1].ChangedSeq
	}
}

// directList is the floor of a cold listing: fetch and decode the rows.
func (w *world) directList(d *direct) (float64, error) {
	begin := time.Now()
	rows, err := d.rows(setList)
	if err == nil && len(rows) != w.listed {
		err = fmt.Errorf("%d rows for %d files", len(rows), w.listed)
	}
	return milliseconds(time.Since(begin)), err
}

// directSmall is the floor of cold small files: one request each.
func (w *world) directSmall(d *direct) (float64, error) {
	begin := time.Now()
	for _, ref := range d.refs {
		var answer wire.PrepareRetrieveResult
		request := wire.PrepareRetrieveRequest{GroupID: setSmall, IPFSHash: ref, Transfer: wire.TransferRaw,
			ClaimID: uuid.NewString()}
		if err := d.tool(wire.OpPrepareRetrieve, request, &answer); err != nil {
			return 0, err
		}
	}
	return rate(len(d.refs), time.Since(begin)), nil
}
