package sdktest

import (
	"context"
	"errors"
	"io"

	"github.com/svcfs/svcfs/sdk"
)

// Read retrieves the file of a reference, or else the newest of a name.
func Read(ctx context.Context, g sdk.Group, refOrName string) ([]byte, sdk.Entry, error) {
	f, err := g.OpenRef(ctx, sdk.Ref(refOrName))
	if errors.Is(err, sdk.ErrNotFound) {
		f, err = g.Open(ctx, refOrName)
	}
	if err != nil {
		return nil, sdk.Entry{}, err
	}
	defer f.Close()
	content, err := io.ReadAll(f)
	return content, f.Entry(), err
}
