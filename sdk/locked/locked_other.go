//go:build !linux

package locked

func allocate(n int) []byte { return make([]byte, n) }
