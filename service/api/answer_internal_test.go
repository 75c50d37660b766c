package api

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/blob"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/store"
)

// A part that does not answer in time is the fault of the part; only a body that does
// not come in time is the fault of the client.
func TestWhoseFaultATimeOutIs(t *testing.T) {
	late := fmt.Errorf("write: %w", os.ErrDeadlineExceeded)
	for name, tc := range map[string]struct {
		err  error
		code string // "" = the client was too slow
	}{
		"body":       {late, ""},
		"file store": {fmt.Errorf("put blob: %w: %w", blob.ErrUnavailable, late), wire.CodeUnavailable},
		"database":   {errors.Join(store.ErrUnavailable, late), wire.CodeUnavailable},
		"gateway":    {&fault.Error{Code: wire.CodeUnavailable, Err: late}, wire.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			e, closes := refusal(tc.err)
			if tc.code == "" && (e != nil || !closes) || tc.code != "" && (e == nil || e.Code != tc.code || closes) {
				t.Errorf("got %+v, closes %v, want code %q", e, closes, tc.code)
			}
		})
	}
}
