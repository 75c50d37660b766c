// Package vectors runs AES-GCM test vectors of others against our own functions.
// It is a module of its own because the vectors are large.
package vectors

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/c2sp/wycheproof"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/integration/proctest"
)

// The shape of our blobs, in bits.
const keyBits, ivBits, tagBits = 256, 96, 128

// check opens one vector as a blob and compares with what its author says.
func check(t *testing.T, name string, key, iv, ct, tag, want []byte, valid bool) {
	t.Helper()
	k, err := format.NewKey(key)
	if err != nil {
		if bytes.Equal(key, make([]byte, len(key))) {
			return // our reader refuses the zero key on purpose
		}
		t.Errorf("%s: %v", name, err)
		return
	}
	blob := append(append(append([]byte{}, iv...), ct...), tag...)
	plain, err := format.OpenBlob(k, blob)
	switch {
	case valid && (err != nil || !bytes.Equal(plain, want)):
		t.Errorf("%s: a valid vector opens to %x, %v", name, plain, err)
	case !valid && !errors.Is(err, format.ErrAuthentication):
		t.Errorf("%s: an invalid vector gives %v", name, err)
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestWycheproofAESGCM(t *testing.T) {
	raw, err := fs.ReadFile(wycheproof.TestVectors, "aes_gcm_test.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		TestGroups []struct {
			IVSize, KeySize, TagSize int
			Tests                    []struct {
				TcID                                        int
				Key, IV, AAD, Msg, CT, Tag, Result, Comment string
			}
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range file.TestGroups {
		if g.KeySize != keyBits || g.IVSize != ivBits || g.TagSize != tagBits {
			continue
		}
		for _, tc := range g.Tests {
			if tc.AAD != "" {
				continue
			}
			n++
			check(t, tc.Comment, unhex(t, tc.Key), unhex(t, tc.IV), unhex(t, tc.CT), unhex(t, tc.Tag), unhex(t, tc.Msg),
				tc.Result == "valid")
		}
	}
	if n < 48 { // of 66 with these sizes; the others have additional data, which our blobs have not
		t.Errorf("only %d vectors have our shape", n)
	}
	t.Logf("%d vectors", n)
}

// TestNIST runs the CAVP files of the Debian package python3-cryptography-vectors.
func TestNIST(t *testing.T) {
	proctest.Need(t, "/usr/share/doc/python3-cryptography-vectors")
	out, err := exec.Command("dpkg", "-L", "python3-cryptography-vectors").Output()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for file := range strings.Lines(string(out)) {
		file = strings.TrimSpace(file)
		if strings.HasSuffix(file, "/gcmDecrypt256.rsp") || strings.HasSuffix(file, "/gcmEncryptExtIV256.rsp") {
			n += runNIST(t, file)
		}
	}
	if n < 150 { // 75 in each file have these sizes and no additional data
		t.Errorf("only %d vectors have our shape", n)
	}
	t.Logf("%d vectors", n)
}

func runNIST(t *testing.T, file string) (n int) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	header, fields := map[string]string{}, map[string]string{}
	finish := func() {
		ours := header["Keylen"] == "256" && header["IVlen"] == "96" && header["AADlen"] == "0" &&
			header["Taglen"] == "128"
		if _, ok := fields["Key"]; ok && ours {
			n++
			_, failed := fields["FAIL"]
			check(t, fields["Count"], unhex(t, fields["Key"]), unhex(t, fields["IV"]), unhex(t, fields["CT"]),
				unhex(t, fields["Tag"]), unhex(t, fields["PT"]), !failed)
		}
		fields = map[string]string{}
	}
	for s := bufio.NewScanner(f); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		name, value, _ := strings.Cut(strings.Trim(line, "[]"), "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case strings.HasPrefix(line, "["):
			finish()
			header[name] = value
		case name == "Count":
			finish()
			fields[name] = value
		case line != "" && !strings.HasPrefix(line, "#"):
			fields[name] = value
		}
	}
	finish()
	return n
}
