package proof

import "github.com/svcfs/svcfs/sdk/wire/cosign"

// CheckWitness returns what is wrong with the text of a witness's verifier key, or nil.
func CheckWitness(key string) error {
	_, err := cosign.NewVerifier(key)
	return err
}
