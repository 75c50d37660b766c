package sdk_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/service/testkit"
)

// sealed seals content under a name that tests look for.
func sealed(t *testing.T, c *sdk.Client, name string, content []byte, opts ...sdk.SealOption) *sdk.Sealed {
	t.Helper()
	s, err := c.Group("g").Seal(t.Context(), name, content, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func diskKeys(t *testing.T) sdk.DiskKeys {
	t.Helper()
	names, err := format.RandomKey()
	if err != nil {
		t.Fatal(err)
	}
	return sdk.DiskKeys{Group: bytes.Repeat([]byte{7}, 32), Names: names}
}

// waiting reads what waits.
func waiting(t *testing.T, s *sdk.Sealed) ([]byte, error) {
	t.Helper()
	b := buffer(t, 0)
	err := s.Content(b)
	return bytes.Clone(b.Bytes()), err
}

// What lies on a disk or is printed shows neither key, name, group, hash nor content; with the
// keyring it can be sent, and without it nothing of that is known.
func TestThreat52SealedUploadOnDisk(t *testing.T) {
	t.Parallel()
	_, c := world(t, testkit.Ours)
	content := []byte("the plaintext " + strings.Repeat("canary ", 500))
	for _, opts := range [][]sdk.SealOption{nil, {sdk.Compress()}, {sdk.Base("bafy1"), sdk.WithAttributes(sdk.Attributes{Executable: true})}} {
		s := sealed(t, c, "the-name.txt", content, opts...)
		keys := diskKeys(t)
		raw, err := s.Encode(keys)
		if err != nil {
			t.Fatal(err)
		}
		cipher := make([]byte, s.BlobSize())
		if _, err := s.Ciphertext().ReadAt(cipher, 0); err != nil {
			t.Fatal(err)
		}
		shown := fmt.Sprintf("%v %+v %#v %s", s, s, s, raw)
		if strings.Contains(shown, `"g"`) { // random bytes can have these three
			t.Errorf("the group is shown: %.300s", shown)
		}
		shown += string(cipher)
		var fields map[string]any
		if err := json.Unmarshal(raw, &fields); err != nil {
			t.Fatal(err)
		}
		for _, field := range fields { // also what lies there in base64
			if text, ok := field.(string); ok {
				part, _ := base64.StdEncoding.DecodeString(text)
				shown += string(part)
			}
		}
		for _, secret := range []string{"the-name", "canary", s.Hash().String(), "executable"} {
			if strings.Contains(shown, secret) {
				t.Errorf("%s is shown: %.300s", secret, shown)
			}
		}
		if got, err := waiting(t, s); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		base, set := s.Base()
		if wants := len(opts) == 2; set != wants || (base == "bafy1") != wants || s.Attributes().Executable != wants {
			t.Errorf("base %q, %v, %+v", base, set, s.Attributes())
		}
		again, err := sdk.DecodeSealed(raw, keys)
		if err != nil {
			t.Fatal(err)
		}
		if again.Locked() || again.HasKey() || again.ID() != s.ID() || again.Name() != s.Name() || again.Group() != "g" || again.Hash() != s.Hash() || again.Size() != s.Size() ||
			!reflect.DeepEqual(again.Attributes(), s.Attributes()) || !again.Time().Equal(s.Time()) || again.Account() != c.Account() || again.Epoch() != 1 {
			t.Errorf("%+v comes back as %+v", s, again)
		}
		if _, err := waiting(t, again); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("read without a key: %v", err)
		}
		if third, err := again.Encode(keys); err != nil || !bytes.Equal(third, raw) {
			t.Errorf("%s, then %s, %v", raw, third, err)
		}
		keys.Names = nil
		locked, err := sdk.DecodeSealed(raw, keys)
		if err != nil || !locked.Locked() || locked.Name() != "" || locked.Group() != "" || locked.Hash() != (sdk.Digest{}) || !locked.IsIn(keys, "g") || locked.IsIn(keys, "h") || locked.Size() != s.Size() {
			t.Errorf("%+v, %v", locked, err)
		}
		s.Wipe()
		if s.HasKey() || s.Locked() {
			t.Error("the key is still there, or the name is not")
		}
	}
}

// A changed item is refused, whatever was changed.
func TestThreat52ChangedItems(t *testing.T) {
	t.Parallel()
	_, c := world(t, testkit.Ours)
	s, keys := sealed(t, c, "f", []byte("content")), diskKeys(t)
	raw, err := s.Encode(keys)
	if err != nil {
		t.Fatal(err)
	}
	other, err := sealed(t, c, "f", []byte("content")).Encode(keys)
	if err != nil {
		t.Fatal(err)
	}
	part := func(raw []byte, field string) string {
		_, after, _ := strings.Cut(string(raw), `"`+field+`":"`)
		text, _, _ := strings.Cut(after, `"`)
		return text
	}
	for _, field := range []string{"id", "account", "group", "sealed_key", "blob_hash", "by_keyring"} {
		mixed := strings.Replace(string(raw), part(raw, field), part(other, field), 1)
		if field == "account" || field == "group" { // equal in both
			mixed = strings.Replace(string(raw), part(raw, field), "x"+part(raw, field)[1:], 1)
		}
		if _, err := sdk.DecodeSealed([]byte(mixed), keys); !errors.Is(err, sdk.ErrCorrupt) {
			t.Errorf("%s of another: %v", field, err)
		}
	}
	for name, raw := range map[string]string{
		"size":    strings.Replace(string(raw), `"size":7`, `"size":8`, 1),
		"version": strings.Replace(string(raw), `"version":1`, `"version":2`, 1),
		"base":    strings.Replace(string(raw), `"group"`, `"base":"x","group"`, 1),
		"field":   strings.Replace(string(raw), `"group"`, `"more":"x","group"`, 1),
		"cut":     string(raw[:len(raw)/2]), "nothing": "", "huge": string(raw) + strings.Repeat(" ", 1<<20),
	} {
		if _, err := sdk.DecodeSealed([]byte(raw), keys); !errors.Is(err, sdk.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cipher := make([]byte, s.BlobSize())
	if _, err := io.ReadFull(io.NewSectionReader(s.Ciphertext(), 0, s.BlobSize()), cipher); err != nil {
		t.Fatal(err)
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
}

// TestReaddressedUpload: an upload that got another name is sealed for that one before it is sent, also after a
// restart, when its key has to be fetched first. The service takes no other head than the one that was sealed.
func TestReaddressedUpload(t *testing.T) {
	t.Parallel()
	_, c := world(t, testkit.Ours)
	g := c.Group("g")
	up, err := g.Seal(t.Context(), "first", []byte("content"))
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Readdress("g", "second", nil); err != nil {
		t.Fatal(err)
	}
	names, err := format.RandomKey()
	if err != nil {
		t.Fatal(err)
	}
	keys := sdk.DiskKeys{Group: make([]byte, 32), Names: names}
	raw, err := up.Encode(keys)
	if err != nil {
		t.Fatal(err)
	}
	again, err := sdk.DecodeSealed(raw, keys)
	if err != nil {
		t.Fatal(err)
	}
	again.KeepIn(up.Ciphertext())
	if sent := c.SendSealed(t.Context(), again)[0]; sent.Err != nil {
		t.Fatal(sent.Err)
	}
	if e, err := g.Stat(t.Context(), "second"); err != nil || e.Hash != sdk.ComputeHash([]byte("content")) {
		t.Errorf("%+v, %v", e, err)
	}
}
