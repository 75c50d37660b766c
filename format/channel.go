package format

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hpke"
	"fmt"
)

// A channel carries keys of files from the vault of a service to one client. The client encapsulates a secret to the
// key of the vault, as for a sealed key (HPKE, RFC 9180, base mode). Both derive a key from the secret, and each key of
// a file comes encrypted under that: nobody between them sees it.

const (
	// EncapsulatedBytes is the length of what a client sends to open a channel.
	EncapsulatedBytes = SealedKeyBytes - KeyBytes - TagBytes
	// ChannelKeyBytes is the length of the key of a file in a channel: nonce, encrypted key and tag.
	ChannelKeyBytes = NonceBytes + KeyBytes + TagBytes

	channelDomain    = "svc-channel-1"
	channelKeyDomain = "svc-channel-key-1"
)

// ChannelFor is what a channel is bound to.
type ChannelFor struct {
	Service string // contract id of the service
	Account string
	Epoch   int64 // number of the vault's key
}

func (f ChannelFor) info() []byte { return sealedInfo(channelDomain, f.Epoch, f.Service, f.Account) }

// Channel encrypts and decrypts keys of files. It prints as "redacted", and is safe for concurrent use.
type Channel struct{ aead cipher.AEAD }

// Format prints "redacted" for every verb.
func (Channel) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// NewChannel begins a channel. The encapsulated secret has [EncapsulatedBytes] and belongs to the caller.
func (p *VaultPublic) NewChannel(to ChannelFor) (encapsulated []byte, c *Channel, err error) {
	kdf, aead := sealedKeySuite()
	encapsulated, sender, err := hpke.NewSender(p.public, kdf, aead, to.info())
	if err == nil {
		c, err = newChannel(sender)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("begin a channel: %w", err)
	}
	return encapsulated, c, nil
}

// OpenChannel opens a channel that a client began. Bytes of another length are [ErrCorrupt]. Another secret and another
// binding give a channel whose keys nobody opens.
func (s *VaultSecret) OpenChannel(from ChannelFor, encapsulated []byte) (*Channel, error) {
	if len(encapsulated) != EncapsulatedBytes {
		return nil, fmt.Errorf("open a channel of %d bytes: want %d: %w", len(encapsulated), EncapsulatedBytes,
			ErrCorrupt)
	}
	kdf, aead := sealedKeySuite()
	recipient, err := hpke.NewRecipient(encapsulated, s.private, kdf, aead, from.info())
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w: %w", ErrCorrupt, err)
	}
	return newChannel(recipient)
}

func newChannel(context interface {
	Export(exporterContext string, length int) ([]byte, error)
}) (*Channel, error) {
	raw, err := context.Export(channelKeyDomain, KeyBytes)
	if err != nil {
		return nil, err
	}
	defer clear(raw)
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &Channel{aead}, err
}

// channelBound is the text with which a key is encrypted.
func channelBound(group, ref string) []byte { return sealedInfo(channelKeyDomain, 0, group, ref) }

// Seal encrypts the key of a file. The result has [ChannelKeyBytes] and belongs to the caller.
func (c *Channel) Seal(group, ref string, key *Key) []byte {
	return c.aead.Seal(nil, nil, key.Bytes(), channelBound(group, ref))
}

// Open decrypts the key of a file. The key of another file, one of another channel, and changed bytes are
// [ErrAuthentication].
func (c *Channel) Open(group, ref string, sealed []byte) (*Key, error) {
	raw, err := c.aead.Open(nil, nil, sealed, channelBound(group, ref))
	if err != nil {
		return nil, fmt.Errorf("open a key that came through a channel: %w", ErrAuthentication)
	}
	defer clear(raw)
	return NewKey(raw)
}
