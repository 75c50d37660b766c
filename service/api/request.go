package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
)

// bodyCopies is how many copies of a small request are in memory while it is answered.
const bodyCopies = 3

// read reads a small request of an account into its shape.
func (s *server) read(w http.ResponseWriter, r *http.Request, request any) error {
	size := r.ContentLength
	if size < 0 { // not known
		size = maxRequestBytes
	}
	if err := s.holdMemory(r, bodyCopies*min(size, maxRequestBytes)); err != nil {
		return err
	}
	raw, err := body(w, r, maxRequestBytes)
	if err != nil {
		return err
	}
	return decode(raw, request)
}

// body reads a JSON request. A missing or malformed body counts as {}, as at
// the hosted service; one nested too deep is refused.
func body(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	raw, err := readAll(w, r, limit)
	if err != nil {
		return nil, err
	}
	return wellFormed(raw)
}

// readAll reads the body of a request, of at most limit bytes.
func readAll(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit { // before a byte of it is read
		return nil, &http.MaxBytesError{Limit: limit}
	}
	var all bytes.Buffer
	all.Grow(int(max(r.ContentLength, 0)) + bytes.MinRead)
	_, err := all.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	return all.Bytes(), err
}

// wellFormed is the JSON of a body.
func wellFormed(raw []byte) ([]byte, error) {
	if wire.DeeperThan(raw, maxDepth) {
		return nil, fault.New(wire.CodeInvalidJSON, "the request is nested deeper than %d", maxDepth)
	}
	if len(raw) == 0 || !json.Valid(raw) || strings.TrimLeft(string(raw[:1]), " \t\r\n{") != "" {
		return []byte("{}"), nil
	}
	return raw, nil
}

// decode reads a request into its shape; what is too long is refused.
func decode(raw []byte, request any) error {
	if err := decodeTypes(raw, request); err != nil {
		return err
	}
	return fault.Invalid(wire.CheckBounds(request))
}

// checkAddress refuses an address with a text that is too long.
func checkAddress(r *http.Request) error {
	query := r.URL.Query()
	for _, name := range [...]string{"id", "part", "ticket", "tile", "group_id", "blocks", "block_size"} {
		if err := cmp.Or(wire.CheckText(name, r.PathValue(name)), wire.CheckText(name, query.Get(name))); err != nil {
			return fault.Invalid(err)
		}
	}
	return nil
}

// checkHeaders refuses a header of the wire that is too long: a token or a key as what it is.
func checkHeaders(r *http.Request) error {
	for _, header := range [...]struct{ name, code string }{{"Authorization", wire.CodeInvalidToken},
		{wire.HeaderAPIKey, wire.CodeInvalidKey}, {wire.HeaderAccountID, wire.CodeValidation},
		{wire.HeaderWalletID, wire.CodeValidation}, {wire.HeaderOpening, wire.CodeValidation},
		{wire.HeaderProof, wire.CodeInvalidToken}} {
		if err := wire.CheckText(header.name, r.Header.Get(header.name)); err != nil {
			return fault.New(header.code, "%s", err.Error())
		}
	}
	return nil
}

// decodeTypes reads JSON into its shape; a field of the wrong type is refused.
func decodeTypes(raw []byte, request any) error {
	err := json.Unmarshal(raw, request)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		field := wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:] // the path before it names types of ours
		return fault.New(wire.CodeInvalidJSON, "field %.60q has the wrong type", field)
	}
	return fault.New(wire.CodeInvalidJSON, "the request is not the JSON that was expected")
}
