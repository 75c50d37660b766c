package proof

import (
	"encoding/base64"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// CheckVaultKey verifies that the key of the log signed a key of the vault. It returns the
// public key. Whether the key may be used, the caller decides. The error is a [Refusal].
func CheckVaultKey(log *Log, k wire.VaultKey) ([]byte, error) {
	public, err := base64.StdEncoding.Strict().DecodeString(k.PublicKey)
	if err != nil {
		return nil, refuse(0, "the key of the vault is not base64")
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(k.Signature)
	if err != nil {
		return nil, refuse(0, "the signature of the key of the vault is not base64")
	}
	signed := chain.VaultKey{Origin: log.Origin(), Epoch: k.Epoch, KEM: k.KEM, Public: public, NotAfter: k.NotAfter}
	if !log.signer.Verify(signed.Text(), signature) {
		return nil, refuse(0, "the key of the vault was not signed with the key %s", log.key)
	}
	return public, nil
}
