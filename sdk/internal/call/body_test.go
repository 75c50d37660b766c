package call

import (
	"bytes"
	"io"
	"testing"
)

// What net/http may read is not read any more once its lease has ended.
func TestLeaseEnds(t *testing.T) {
	t.Parallel()
	l := &lease{}
	memory := []byte("ciphertext")
	read := 0
	l.read = func() { read++ }
	again := func() io.ReadCloser { return l.body(func() io.Reader { return bytes.NewReader(memory) }, nil) }
	first, body := again(), again()
	if n, err := first.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("a body that was replaced reads %d bytes, %v", n, err)
	}
	if _, copies := body.(io.WriterTo); copies {
		t.Error("the body hands its memory to the network without copying")
	}
	got := make([]byte, 6)
	if _, err := io.ReadFull(body, got); err != nil || string(got) != "cipher" {
		t.Errorf("%q, %v", got, err)
	}
	whole := again()
	if all, err := io.ReadAll(whole); err != nil || string(all) != "ciphertext" || read != 1 {
		t.Errorf("%q, %v; told %d times that it was read", all, err, read)
	}
	if n, err := whole.Read(got); n != 0 || err == nil || read != 1 {
		t.Errorf("after its end %q, %v; told %d times", got[:n], err, read)
	}
	body = again()
	l.end()
	copy(memory, "plaintext!")
	if n, err := body.Read(got); n != 0 || err == nil {
		t.Errorf("after the end %q, %v", got[:n], err)
	}
}
