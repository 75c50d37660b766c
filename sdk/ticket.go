package sdk

import (
	"crypto/hmac"
	"crypto/sha256"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/hosted"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// saltDomain separates salts from all else that is made of the key of a file.
const saltDomain = "svcfs-salt-1"

// saltOf is the salt of what the record of a file commits to. A repeated upload has the same, also after
// a restart; without the key nobody can tell it.
func saltOf(key *format.Key) [chain.SaltBytes]byte {
	mac := hmac.New(sha256.New, key.Bytes())
	_, _ = mac.Write([]byte(saltDomain)) // never fails
	return [chain.SaltBytes]byte(mac.Sum(nil))
}

// ticketLife is how long a service keeps an upload id.
const ticketLife = 300 * time.Second

// ticket is what the service issued for one upload, and the state of the upload.
type ticket struct {
	id         string
	key        *format.Key
	salt       [chain.SaltBytes]byte // of what the record commits to
	base, upon string                // of [options]; upon "" = none was sent
	uploadURL  string                // path for the raw transfer; "" = not offered
	since      time.Time
	lost       time.Time // when an answer last failed to arrive
	state      hosted.State
	compressed bool   // the sealed content is compressed
	attributes string // of the newest finalize
	mixed      bool   // the finalizes had different attributes; any of them may be recorded
	after      int64  // known number of records in the group before the first finalize
}
