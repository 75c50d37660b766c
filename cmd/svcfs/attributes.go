package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/svcfs/svcfs/sdk"
)

// linkOf returns the target of a symbolic link, "" for a file.
func linkOf(e *sdk.Entry) string {
	if e.Attributes == nil {
		return ""
	}
	return e.Attributes.Target
}

// attributesMark is what ls -l shows behind a name.
func attributesMark(e *sdk.Entry) string {
	switch {
	case linkOf(e) != "":
		return " -> " + linkOf(e)
	case e.Attributes != nil && e.Attributes.Executable:
		return "*"
	default:
		return ""
	}
}

// attributesOf returns what put records with a local file: its time, whether its owner may
// execute it, and the target of a link. Extended attributes stay here: they tell where a
// file came from.
func attributesOf(local localFile, content io.ReadSeekCloser) (a sdk.Attributes) {
	info := local.info
	if f, ok := content.(*os.File); ok {
		info, _ = f.Stat()
	}
	a.Target = local.link
	if info == nil {
		return a
	}
	a.Executable = info.Mode().IsRegular() && info.Mode()&0o100 != 0
	if at := (sdk.Attributes{ModTime: info.ModTime()}); at.Check() == nil {
		a.ModTime = at.ModTime
	}
	return a
}

// mayEqual reports whether content of so many bytes can be that of e.
func mayEqual(e *sdk.Entry, size int64) bool { return e.Size == sdk.SizeUnknown || e.Size == size }

// looksEqual compares a local file with e where the hash of e is not known: by size and by
// the time that was recorded.
func looksEqual(e *sdk.Entry, size int64, modified time.Time) bool {
	return e.Hash == (sdk.Digest{}) && e.Size == size && e.Attributes != nil && !e.Attributes.ModTime.IsZero() &&
		e.Attributes.ModTime.Equal(modified)
}

// bringUpToDate records the time and the execute bit of a local file with its newest
// version, which has the same content.
func bringUpToDate(ctx context.Context, g sdk.Group, e *sdk.Entry, local sdk.Attributes) error {
	var recorded sdk.Attributes
	if e.Attributes != nil {
		recorded = *e.Attributes
	}
	if local.ModTime.IsZero() || recorded.ModTime.Equal(local.ModTime) && recorded.Executable == local.Executable {
		return nil
	}
	local.XAttrs = recorded.XAttrs
	_, err := g.SetAttributes(ctx, e.Ref, local)
	return err
}

// marks are the attributes that a fetched file gets.
type marks struct {
	modTime    time.Time // zero = now
	executable bool
}

// marksOf returns what get restores of e. A program of another account must not become
// executable here.
func marksOf(e *sdk.Entry, account sdk.AccountID) marks {
	if e.Attributes == nil {
		return marks{}
	}
	return marks{e.Attributes.ModTime, e.Attributes.Executable && e.Uploader == account}
}
