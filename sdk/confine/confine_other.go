//go:build !linux

package confine

// Supported returns the version of landlock in this kernel, or [ErrUnsupported].
func Supported() (version int, err error) { return 0, ErrUnsupported }

func (l Limits) apply() error { return ErrUnsupported }

// Harden does nothing here.
func Harden() error { return nil }
