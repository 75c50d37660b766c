package sdk_test

import (
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

// Threat 52: a sealed upload prints neither key, name, group, hash nor content.
func TestThreat52SealedUploadPrintsNothing(t *testing.T) {
	t.Parallel()
	_, c := world(t, testkit.Ours)
	content := []byte("the plaintext " + strings.Repeat("canary ", 500))
	for _, opts := range [][]sdk.PutOptions{nil, {{Compress: true}},
		{{Base: new(sdk.Ref("bafy1")), Attributes: sdk.Attributes{Executable: true}}}} {
		s := sealed(t, c, "the-name.txt", content, opts...)
		cipher := s.Ciphertext()
		base, set, a, hash := s.Said()
		shown := fmt.Sprintf("%v %+v %#v", s, s, s)
		if strings.Contains(shown, `"g"`) { // random bytes can have these three
			t.Errorf("the group is shown: %.300s", shown)
		}
		for _, secret := range []string{"the-name", "canary", hash.String(), "executable"} {
			if strings.Contains(shown+string(cipher), secret) {
				t.Errorf("%s is shown: %.300s", secret, shown)
			}
		}
		if wants := len(opts) == 1 && opts[0].Base != nil; set != wants || (base == "bafy1") != wants || a.Executable != wants {
			t.Errorf("base %q, %v, %+v", base, set, a)
		}
	}
}
