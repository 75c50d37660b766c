package service_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/svcfs/svcfs/sdk/wire"
)

// The chain of a group comes compressed to those who ask for that, and not a short one; other lists do not.
func TestChainsAreCompressedOnRequest(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice := r.user("alice", "100")
	for group, n := range map[string]int{"short": 1, "long": 1200} {
		must[string](alice, wire.OpRegisterGroup, object{"group_id": group})
		alice.recorded(group, n, func(i int) string { return fmt.Sprint(i) })
	}
	list := func(group, kinds, accept string) (raw []byte, packed bool) {
		t.Helper()
		header := alice.header().Clone()
		header.Set("Accept-Encoding", accept)
		status, body := alice.post(wire.PathTools+wire.OpGetGroupTransactions, header,
			object{"group_id": group, "kinds": kinds, "layouts": layouts(), "nonce": nonce})
		if status != http.StatusOK {
			t.Fatalf("%d %.300s", status, body)
		}
		if !bytes.HasPrefix(body, []byte("\x28\xb5\x2f\xfd")) {
			return body, false
		}
		z, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxWindow(wire.PackWindowBytes))
		if err == nil {
			defer z.Close()
			raw, err = io.ReadAll(z)
		}
		if err != nil || len(raw) < 2*len(body) {
			t.Errorf("%d bytes for %d, %v", len(body), len(raw), err)
		}
		return raw, true
	}
	plain, _ := list("long", wire.KindsChain, "identity")
	want, _, ok := wire.ParseRows(plain, 100, 100)
	if !ok || len(want) != 1201 {
		t.Fatalf("%d records, %v", len(want), ok)
	}
	unsigned := func(rows []wire.TransactionRow) []wire.TransactionRow { // the time of the signature differs
		for i := range rows {
			rows[i].Page = nil
		}
		return rows
	}
	unsigned(want)
	for _, tc := range []struct {
		group, kinds, accept string
		packed               bool
	}{
		{"long", wire.KindsChain, "zstd", true}, {"long", wire.KindsChain, "br, gzip, ZSTD;q=0.5", true},
		{"long", wire.KindsChain, "br", false}, {"long", wire.KindsChain, "zstd;q=0.0", false},
		{"long", wire.KindsChain, "", false}, {"long", wire.KindsAll, "zstd", false}, {"long", "", "zstd", false},
		{"short", wire.KindsChain, "zstd", false},
	} {
		raw, packed := list(tc.group, tc.kinds, tc.accept)
		if packed != tc.packed {
			t.Errorf("%+v: compressed: %v", tc, packed)
		}
		if rows, proof, ok := wire.ParseRows(raw, 100, 100); packed &&
			(!ok || !reflect.DeepEqual(unsigned(rows), want) || proof.Head.Number != int64(len(want))) {
			t.Errorf("%+v: %d records, of which the proof has %d", tc, len(rows), proof.Head.Number)
		}
	}
}
