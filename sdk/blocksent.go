package sdk

import "github.com/svcfs/svcfs/format"

// Sent returns which of some blocks the service has, from this upload or from [saving.Begun]. Where
// [BlockUpload.TakesOver], a block that changed since the base must be sent before Finish: one that was not sent is
// that of the base. Local, free.
func (u *BlockUpload) Sent(blocks format.Extents) (sent format.Extents) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range blocks.All() {
		if u.owner(i) != nil {
			sent = sent.Add(i)
		}
	}
	return sent
}
