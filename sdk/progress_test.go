package sdk_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/sdktest"
)

// Transfers of file content are reported to their end, in JSON and raw; small
// requests are not.
func TestProgress(t *testing.T) {
	for _, flavour := range []sdktest.Flavour{sdktest.GenB, sdktest.Extended} {
		t.Run(flavour.String(), func(t *testing.T) {
			s := sdktest.NewServer(t, flavour)
			alice := s.Account("alice", "100")
			c := s.Client(t, alice)
			var mu sync.Mutex
			var seen []sdk.Progress
			ctx := sdk.WithProgress(t.Context(), func(p sdk.Progress) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, p)
			})
			if _, err := c.RegisterGroup(ctx, "team"); err != nil {
				t.Fatal(err)
			}
			content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
			r, err := c.UploadBytes(ctx, "team", "f", content)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := c.RetrieveBytes(ctx, "team", string(r.Ref)); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			var up, down sdk.Progress
			for _, p := range seen {
				last := &down
				if p.Upload {
					last = &up
				}
				if p.Done <= last.Done && last.Total == p.Total {
					t.Fatalf("%+v after %+v", p, *last)
				}
				if p.Done > last.Done {
					*last = p
				}
			}
			if up.Done != up.Total || up.Done < int64(len(content)) {
				t.Errorf("the upload ended at %+v", up)
			}
			if down.Done < int64(len(content)) || down.Total >= 0 && down.Done != down.Total {
				t.Errorf("the download ended at %+v", down)
			}
		})
	}
}
