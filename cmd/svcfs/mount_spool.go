package main

import (
	"fmt"
	"os"

	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/fs/tree/staging"
	"github.com/svcfs/svcfs/sdk/wire"
)

// openSpool makes the spool of a mount, nil for none: it is for files in blocks. A mount without
// one keeps what programs write in memory.
func (a *app) openSpool(p mountPlan, caps wire.Capabilities) *staging.Spool {
	if p.readOnly || !caps.Dialect.IsOurs() || p.flags.spooled && p.flags.spoolSize == 0 {
		return nil
	}
	dir := a.userDir("XDG_CACHE_HOME", ".cache", "")
	if dir == "" {
		a.ui.notice("large files being written stay in memory (--staging-size): neither XDG_CACHE_HOME nor HOME " +
			"names a folder for them")
		return nil
	}
	spool, err := newSpool(dir, p.flags)
	if err != nil {
		a.ui.notice("large files being written stay in memory (--staging-size): %v", err)
		return nil
	}
	return spool
}

func newSpool(dir string, f *mountFlags) (*staging.Spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	limit := int64(f.spoolSize)
	if !f.spooled {
		free, err := staging.FreeBytes(dir)
		if err != nil {
			return nil, err
		}
		limit = free / 2
	}
	return staging.OpenSpool(dir, limit)
}

// checkSizes refuses a --max-file-size that this mount could not write.
func (f *mountFlags) checkSizes(readOnly bool) error {
	if !f.sized || readOnly || f.maxFileSize <= f.stagingSize {
		return nil
	}
	return usage("raise --staging-size as well", fmt.Sprintf("a file of %s (--max-file-size) could not be written: "+
		"--staging-size is %s", &f.maxFileSize, &f.stagingSize))
}

// sizeFiles tells the tree how large files may be: in one piece, and in blocks.
func (f *mountFlags) sizeFiles(cfg *tree.Config, caps wire.Capabilities, largest int64) {
	cfg.MaxUploadBytes = largest
	if !caps.Dialect.IsOurs() {
		return
	}
	cfg.WholeBytes, cfg.MaxBlocksBytes, cfg.MaxUploadBytes = wire.WholeFileBytes, largest, cfg.MaxFileBytes
	if caps.MaxFileBytes > 0 {
		cfg.MaxUploadBytes = caps.MaxFileBytes
	}
	if f.sized {
		cfg.MaxBlocksBytes = min(largest, cfg.MaxFileBytes)
	}
}
