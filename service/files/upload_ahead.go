package files

import (
	"github.com/svcfs/svcfs/service/groups"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"

	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// What a write will ask is said beforehand, see [store.Chains.Asking]. What is forgotten here costs a round trip and
// nothing else.

// asksToRecord are the queries of [Files.mayRecord] and [Files.record] for an upload, but for those about the place of
// key and content.
func (f *Files) asksToRecord(account, group string) []store.Ask {
	asks := []store.Ask{groups.AskFor(group, account), ledger.AskBalance(account), askStored(account, group),
		ledger.AskEnd(chain.OfGroup(group)), keys.AskCurrent(vaultwire.PurposeLog)}
	if _, ok := f.listKeys.get(group); !ok {
		asks = append(asks, askListKey(group))
	}
	return asks
}

// asksOf are the queries of recording uploads: of the first one all, of the others whether they are recorded.
func (f *Files) asksOf(list []*sealed) (asks []store.Ask) {
	first := true
	for _, s := range list {
		if s.invalid != nil {
			continue
		}
		asks = append(asks, askSpent(s.account, s.id))
		if first {
			asks = append(append(asks, f.asksToRecord(s.account, s.GroupID)...), asksToKeep(s)...)
		}
		first = false
	}
	return asks
}

// asksToKeep are the queries about the place of key and content.
func asksToKeep(s *sealed) []store.Ask {
	switch {
	case s.key.IsNone():
		return nil
	case s.at.small == nil:
		return []store.Ask{askKeyPlace()}
	}
	return []store.Ask{keys.AskNewestRoot(), askPlace(len(padded(make([]byte, wrappedBytes), s.at.small)))}
}
