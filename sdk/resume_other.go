//go:build !linux

package sdk

import "syscall"

// changeTime is not known.
func changeTime(*syscall.Stat_t) int64 { return 0 }
