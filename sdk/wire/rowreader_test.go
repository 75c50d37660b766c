package wire_test

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/svcfs/svcfs/sdk/wire"
)

// readAll reads an answer row by row.
func readAll(in io.Reader, most int64) (rows []wire.TransactionRow, rest string, err error) {
	r := wire.NewRowReader(in)
	for {
		some, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return rows, "", err
		}
		rows = append(rows, some...)
	}
	raw, err := r.Rest(most)
	return rows, string(raw), err
}

// What arrives in pieces of any size is the list that it is as a whole, with what follows it.
func TestRowReaderReadsWhatArrives(t *testing.T) {
	long := `{"result":[{"seq":1,"detail":"` + strings.Repeat("d", 200_000) + `"},{"seq":2}]}`
	for _, tc := range []struct {
		text string
		rows int
		rest string
	}{
		{string(manyRows(t, 1000)), 1000, `{"result":[]}`},
		{`{"result":[],"proof":{"checkpoint":"c"}}` + "\n", 0, `{"result":[],"proof":{"checkpoint":"c"}}` + "\n"},
		{` { "result" : [ {"seq":7,"new_field":{"a":"}]\""}} , {"Seq":8} ] , "more" : 1 } `, 2, `{"result":[] , "more" : 1 } `},
		{long, 2, `{"result":[]}`},
		{`[{"seq":1}]`, 0, `[{"seq":1}]`},
		{`{"error":"no"}`, 0, `{"error":"no"}`},
		{``, 0, ``},
	} {
		for name, in := range map[string]io.Reader{"whole": strings.NewReader(tc.text), "with its end": iotest.DataErrReader(strings.NewReader(tc.text)),
			"by halves": iotest.HalfReader(strings.NewReader(tc.text)), "by bytes": iotest.OneByteReader(strings.NewReader(tc.text))} {
			rows, rest, err := readAll(in, 1000)
			if err != nil || len(rows) != tc.rows || rest != tc.rest {
				t.Errorf("%.60q %s: %d rows, rest %q, %v", tc.text, name, len(rows), rest, err)
			}
			if want, _ := byJSON([]byte(tc.text)); tc.rows > 0 && !reflect.DeepEqual(rows, want) {
				t.Errorf("%.60q %s: other rows than encoding/json reads", tc.text, name)
			}
		}
	}
}

// blanks is white space without end.
type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// An answer that goes on as something else, or ends, is refused, and so is a row or an end of any length (threat 8).
func TestThreat8RowReaderRefuses(t *testing.T) {
	for _, text := range []string{`{"result":[`, `{"result":[{"seq":1}`, `{"result":[{"seq":1},`, `{"result":[{"seq":1},]}`, `{"result":[{"seq":1} {"seq":2}]}`, `{"result":[null]}`,
		`{"result":[{"seq":"x"}]}`, `{"result":[{"seq":1]]}`, `{"result":[` + strings.Repeat(`{"a":`, 100) + strings.Repeat("}", 100) + `]}`,
		`{"result":[{"detail":"` + strings.Repeat("x", wire.MaxRowBytes+1<<20), `{"result":[]` + strings.Repeat(" ", wire.MaxRowBytes),
		`{"result":[{}` + strings.Repeat(" ", 3*wire.MaxRowBytes), `{"result":[{},` + strings.Repeat(" ", 3*wire.MaxRowBytes)} {
		if _, _, err := readAll(strings.NewReader(text), 1000); !errors.Is(err, wire.ErrRows) {
			t.Errorf("%.60q: %v", text, err)
		}
	}
	if _, _, err := readAll(strings.NewReader(strings.Repeat("x", 2000)), 1000); !errors.Is(err, wire.ErrRows) {
		t.Errorf("an answer that is too long: %v", err)
	}
	for _, begin := range []string{``, `{"result":[`, `{"result":[{}`, `{"result":[{},`} {
		if _, _, err := readAll(io.MultiReader(strings.NewReader(begin), blanks{}), 1000); !errors.Is(err, wire.ErrRows) {
			t.Errorf("white space without end after %q: %v", begin, err)
		}
	}
	lost := errors.New("lost")
	in := io.MultiReader(strings.NewReader(`{"result":[{"seq":1},{"seq":`), iotest.ErrReader(lost))
	if rows, _, err := readAll(in, 1000); len(rows) != 1 || !errors.Is(err, lost) {
		t.Errorf("a lost connection: %d rows, %v", len(rows), err)
	}
}
