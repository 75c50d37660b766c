package sdk_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/service/testkit"
)

// sealed seals content under a name that tests look for.
func sealed(t *testing.T, c *sdk.Client, name string, content []byte, opts ...sdk.PutOptions) *sdk.Sealed {
	t.Helper()
	s, err := c.Group("g").Seal(t.Context(), name, content, nil, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// waiting reads what waits.
func waiting(t *testing.T, s *sdk.Sealed) ([]byte, error) {
	t.Helper()
	b := buffer(t, 0)
	err := s.Content(b)
	return bytes.Clone(b.Bytes()), err
}

// Threat 52: a sealed upload prints neither key, name, group, hash nor content, and a ciphertext that was changed is
// refused.
func TestThreat52SealedUploadPrintsNothing(t *testing.T) {
	t.Parallel()
	_, c := world(t, testkit.Ours)
	content := []byte("the plaintext " + strings.Repeat("canary ", 500))
	for _, opts := range [][]sdk.PutOptions{nil, {{Compress: true}},
		{{Base: new(sdk.Ref("bafy1")), Attributes: sdk.Attributes{Executable: true}}}} {
		s := sealed(t, c, "the-name.txt", content, opts...)
		cipher := make([]byte, s.BlobSize())
		if _, err := s.Ciphertext().ReadAt(cipher, 0); err != nil {
			t.Fatal(err)
		}
		shown := fmt.Sprintf("%v %+v %#v", s, s, s)
		if strings.Contains(shown, `"g"`) { // random bytes can have these three
			t.Errorf("the group is shown: %.300s", shown)
		}
		for _, secret := range []string{"the-name", "canary", s.Hash().String(), "executable"} {
			if strings.Contains(shown+string(cipher), secret) {
				t.Errorf("%s is shown: %.300s", secret, shown)
			}
		}
		if got, err := waiting(t, s); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		base, set := s.Base()
		if wants := len(opts) == 1 && opts[0].Base != nil; set != wants || (base == "bafy1") != wants || s.Attributes().Executable != wants {
			t.Errorf("base %q, %v, %+v", base, set, s.Attributes())
		}
		cipher[20] ^= 1
		s.KeepIn(bytes.NewReader(cipher))
		if _, err := waiting(t, s); !errors.Is(err, sdk.ErrCorrupt) {
			t.Errorf("changed ciphertext: %v", err)
		}
		s.KeepIn(bytes.NewReader(cipher[:30]))
		if _, err := waiting(t, s); !errors.Is(err, sdk.ErrCorrupt) {
			t.Errorf("short ciphertext: %v", err)
		}
		s.Wipe()
		if _, err := waiting(t, s); s.HasKey() || !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("read without a key: %v", err)
		}
	}
}
