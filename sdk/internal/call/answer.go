package call

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/svcfs/svcfs/sdk/wire"
)

const (
	// MaxAnswer bounds an answer that is neither a list nor file content, in bytes.
	MaxAnswer = 1 << 20
	// MaxDepth bounds the nesting of an answer.
	MaxDepth = 64
	// maxAnnounced bounds the memory that is allocated for an answer before it arrives, in
	// bytes.
	maxAnnounced = 4 << 20
)

// ErrTooMuch means that an answer is over its limit.
var ErrTooMuch = errors.New("the answer is too large")

// ReadBounded reads the body of an answer, of at most so many bytes.
func ReadBounded(resp *http.Response, limit int64) ([]byte, error) {
	if resp.ContentLength > limit {
		return nil, Malformed(ErrTooMuch)
	}
	if resp.ContentLength > 0 && resp.ContentLength <= maxAnnounced {
		raw := make([]byte, resp.ContentLength)
		_, err := io.ReadFull(resp.Body, raw)
		return raw, err
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) > limit {
		return nil, Malformed(ErrTooMuch)
	}
	return raw, nil
}

// Fill reads exactly len(p) bytes of a body, and returns how many it read. A complete body that is too short is
// malformed. A body that broke off is not malformed, and may be requested again.
func Fill(p []byte, r io.Reader) (read int, err error) {
	for read < len(p) {
		n, err := r.Read(p[read:])
		read += n
		if err == io.EOF && read < len(p) {
			return read, Malformed(errors.New("less data than announced"))
		}
		if err != nil && err != io.EOF {
			return read, err
		}
	}
	return read, nil
}

// Document returns a [Call].Answer that decodes a JSON document of at most [MaxAnswer] bytes.
func Document(into any) func(*http.Response) error {
	return func(resp *http.Response) error {
		raw, err := ReadBounded(resp, MaxAnswer)
		if err != nil {
			return err
		}
		return Decode(raw, into)
	}
}

// Decode reads one JSON document of bounded depth.
func Decode(raw []byte, into any) error {
	if err := CheckDepth(raw); err != nil {
		return err
	}
	err := json.Unmarshal(raw, into)
	if err == nil || errors.As(err, new(*MalformedError)) {
		return err
	}
	return Malformed(DescribeJSON(err))
}

// CheckDepth refuses a document that is nested too deep.
func CheckDepth(raw []byte) error {
	if wire.DeeperThan(raw, MaxDepth) {
		return Malformed(fmt.Errorf("nested deeper than %d", MaxDepth))
	}
	return nil
}

// DescribeJSON returns a JSON error with the place of the fault and without the content of
// the answer.
func DescribeJSON(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("not JSON at byte %d", syntax.Offset)
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("field %.120q has the wrong type", wrong.Field)
	}
	return errors.New("not the JSON that was expected")
}
