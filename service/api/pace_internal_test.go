package api

import (
	"bytes"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// kernelWriter is an answer over a connection that takes files.
type kernelWriter struct {
	*httptest.ResponseRecorder
	files int
}

func (w *kernelWriter) ReadFrom(r io.Reader) (int64, error) {
	if l, ok := r.(*io.LimitedReader); ok {
		if _, ok := l.R.(*os.File); ok {
			w.files++
		}
	}
	return io.Copy(w.Body, r)
}

// inFiles is content in files of ten bytes, and what follows them elsewhere.
type inFiles struct {
	io.Reader
	files  []*os.File
	passed []int64
}

func (f *inFiles) Next() (*os.File, int64, error) {
	if len(f.files) == 0 {
		return nil, 0, nil
	}
	return f.files[0], 10 - f.passed[len(f.passed)-1], nil
}

func (f *inFiles) Passed(n int64) error {
	if f.passed[len(f.passed)-1] += n; f.passed[len(f.passed)-1] == 10 {
		f.files, f.passed = f.files[1:], append(f.passed, 0)
	}
	return nil
}

// What lies in files goes from the disk to the connection, and the rest is copied; over TLS all of it.
func TestPartsGoFromTheDiskToTheConnection(t *testing.T) {
	for _, tc := range []struct {
		plain  bool
		limit  int64
		want   string
		files  int
		passed int
	}{
		{true, 5, "01234", 1, 1},
		{true, 15, "0123456789abcde", 2, 2},
		{true, 25, "0123456789abcdefghij_rest", 2, 3},
		{false, 5, "_rest", 0, 1},
	} {
		in := &inFiles{Reader: bytes.NewReader([]byte("_rest and more")), passed: []int64{0}}
		for _, content := range []string{"0123456789more", "abcdefghij"} {
			path := filepath.Join(t.TempDir(), "part")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			in.files = append(in.files, f)
		}
		answer := &kernelWriter{ResponseRecorder: httptest.NewRecorder()}
		w := &countedWriter{ResponseWriter: answer, trace: &trace{}, plain: tc.plain,
			pace: pace{set: func(time.Time) error { return nil }}}
		n, err := w.ReadFrom(io.LimitReader(in, tc.limit))
		if err != nil || n != tc.limit || answer.Body.String() != tc.want || answer.files != tc.files ||
			len(in.passed) != tc.passed {
			t.Errorf("%+v: sent %d bytes %q, from %d files, %v", tc, n, answer.Body, answer.files, err)
		}
	}
}
