package integration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/service/blob/s3test"
)

// svcd refuses a bucket it cannot rely on before it listens, and says what to do.
func TestBlobsRefusals(t *testing.T) {
	server := s3test.Start(t)
	bare := s3test.StartWithoutMetadata(t)
	bin := programs.Dir(t, "svcfs", "svcd")
	for _, tc := range []struct {
		name, blobs string
		env         []string
		word        string
	}{
		{"missing bucket", server.Location("not-there"), s3test.Env(), "s3 mb s3://not-there"},
		{"conditions ignored", bare.Location(bare.NewBucket(t)), s3test.Env(), "ignores If-None-Match"},
		{"no credentials", server.Location(server.NewBucket(t)), nil, "AWS_ACCESS_KEY_ID"},
		{"credentials in the address", "s3://key:hunter2@files", s3test.Env(), "do not belong"},
		{"another scheme", "gs://files", nil, "s3://BUCKET"},
	} {
		for _, from := range []string{"flag", "environment"} {
			cmd := exec.Command(filepath.Join(bin, "svcd"), "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0")
			cmd.Env = append([]string{"HOME=" + t.TempDir()}, tc.env...)
			if from == "flag" {
				cmd.Args = append(cmd.Args, "--blobs", tc.blobs)
			} else {
				cmd.Env = append(cmd.Env, "SVCD_BLOBS="+tc.blobs)
			}
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), tc.word) || strings.Contains(string(out), "listening") {
				t.Errorf("%s by %s: %v, want %q:\n%s", tc.name, from, err, tc.word, out)
			}
			for _, secret := range append(s3test.Secrets(), "hunter2") {
				if strings.Contains(string(out), secret) {
					t.Errorf("%s by %s: the output holds a secret", tc.name, from)
				}
			}
		}
	}
}
