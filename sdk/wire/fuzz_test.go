package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"testing/iotest"

	"github.com/svcfs/svcfs/sdk/wire"
)

// FuzzAmount: what is read as an amount is written the same, in yocto and in
// tokens.
func FuzzAmount(f *testing.F) {
	for _, seed := range []string{"0", "1", "640000000000000000000000", "340282366920938463463374607431768211455", "340282366920938463463374607431768211456", "-1", "1e3", "0.64", "1.", ".5", "", "007"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func(string) (wire.Amount, error){wire.ParseAmount, wire.ParseTokens} {
			a, err := parse(text)
			if err != nil {
				continue
			}
			if yocto, err := wire.ParseAmount(a.String()); err != nil || yocto != a {
				t.Errorf("%q is %s yocto, read again %s, %v", text, a, yocto, err)
			}
			if tokens, err := wire.ParseTokens(a.Tokens()); err != nil || tokens != a {
				t.Errorf("%q is %s tokens, read again %s, %v", text, a.Tokens(), tokens, err)
			}
		}
	})
}

// FuzzRowReader: what [wire.RowReader] reads of an answer in pieces is what encoding/json reads of
// the whole.
func FuzzRowReader(f *testing.F) {
	for _, seed := range []string{`{"result":[{"seq":1},{"detail":"\"}]"}],"proof":{}}`, `{"result":[]}`, `[{"seq":1}]`, ` {"result" : [{"Seq":1,"x":[{}]}]}`, `{"result":[{"seq":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		rows, rest, err := readAll(iotest.HalfReader(bytes.NewReader(raw)), 1<<20)
		again, restAgain, errAgain := readAll(bytes.NewReader(raw), 1<<20)
		if len(rows) != len(again) || rest != restAgain || (err == nil) != (errAgain == nil) || err != nil && !errors.Is(err, wire.ErrRows) {
			t.Fatalf("%d rows, %q, %v; in pieces %d, %q, %v", len(again), restAgain, errAgain, len(rows), rest, err)
		}
		if err != nil || !json.Valid(raw) || len(rows) == 0 {
			return
		}
		var whole struct {
			Result []wire.TransactionRow `json:"result"`
		}
		if err := json.Unmarshal([]byte(rest), &whole); err != nil || whole.Result == nil || len(whole.Result) > 0 {
			return // a second list behind the first
		}
		if err := json.Unmarshal(raw, &whole); err != nil || !reflect.DeepEqual(rows, whole.Result) {
			t.Errorf("%+v, want %+v, %v", rows, whole.Result, err)
		}
	})
}
