package files

import (
	"errors"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/store"
)

// An upload whose key does not open is refused for that where it is not recorded, also after a run, which was undone,
// that had found it recorded: nothing of that run's answer is left.
func TestShutKeyAfterARunThatWasUndone(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	shut := errors.New("the key does not open")
	u := &sealed{shut: shut, result: wire.FinalizeUploadResult{Receipt: &wire.ChainHead{Number: 7}}}
	err = s.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
		return (&Files{}).recordSealed(t.Context(), tx, u)
	})
	if err != nil || u.refused != shut || u.result.Receipt != nil {
		t.Errorf("refused: %v, receipt %v, %v", u.refused, u.result.Receipt, err)
	}
}
