package sdk

import "syscall"

// changeTime returns when a file last changed in any way, in ns since the epoch.
func changeTime(st *syscall.Stat_t) int64 { return st.Ctim.Nano() }
