package vault

import (
	"context"
	"crypto/cipher"
	"crypto/ed25519"
	"fmt"

	"github.com/svcfs/svcfs/service/vaultwire"
)

// public is what others may know of a key: of the log and of an epoch the public key.
func (v *Vault) public(k serviceKey) ([]byte, error) {
	switch k.Purpose {
	case vaultwire.PurposeLog:
		return v.signer(k).Public().(ed25519.PublicKey), nil
	case vaultwire.PurposeUploads:
		secret, err := v.secret(k)
		if err != nil {
			return nil, err
		}
		return secret.Public(), nil
	}
	return nil, nil
}

func (v *Vault) signer(k serviceKey) ed25519.PrivateKey {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.signers[k.Version] == nil {
		v.signers[k.Version] = ed25519.NewKeyFromSeed(k.raw.Slice())
	}
	return v.signers[k.Version]
}

// Sign implements [vaultwire.Vault].
func (v *Vault) Sign(_ context.Context, q vaultwire.Sign) (a vaultwire.Signed, err error) {
	k, ok := v.key(vaultwire.PurposeLog, q.Version)
	if !ok {
		return a, fmt.Errorf("key %d of the log: %w", q.Version, vaultwire.ErrUnknownKey)
	}
	now := v.now()
	if q.Tree != nil {
		a.Opens = v.opens.counted(now)
	}
	text, err := q.Text(func(purpose string, version int64) ([]byte, error) {
		k, ok := v.key(purpose, version)
		if !ok {
			return nil, fmt.Errorf("key %d for %s: %w", version, purpose, vaultwire.ErrUnknownKey)
		}
		return v.public(k)
	}, a.Opens, now)
	if err == nil && q.Tree != nil {
		if newest := v.newestTree(); *q.Tree != newest || newest == (vaultwire.Tree{}) {
			return a, fmt.Errorf("a tree of %d records beside that of %d: %w", q.Tree.Records, newest.Records,
				vaultwire.ErrNotFollowing)
		}
	}
	if err == nil {
		a.Signature = ed25519.Sign(v.signer(k), text)
	}
	return a, err
}

// Extend implements [vaultwire.Vault].
func (v *Vault) Extend(_ context.Context, q vaultwire.Extension) (vaultwire.Nothing, error) {
	v.following.Lock()
	defer v.following.Unlock()
	log, records, err := v.log.Extended(q)
	if err != nil {
		return vaultwire.Nothing{}, err
	}
	if v.log.Tree.Records == 0 { // the first tree that has records is believed
		v.opens.begins(v.now())
		v.groups.begins(log.Tree)
	}
	v.log = log
	if len(records) > 0 {
		v.groups.extends(log.Tree, records)
	}
	for _, r := range records {
		v.opens.comes(r)
	}
	return vaultwire.Nothing{}, nil
}

func (v *Vault) newestTree() vaultwire.Tree {
	v.following.Lock()
	defer v.following.Unlock()
	return v.log.Tree
}

// NewestTree implements [vaultwire.Vault].
func (v *Vault) NewestTree(context.Context, vaultwire.Nothing) (vaultwire.Tree, error) {
	return v.newestTree(), nil
}

func (v *Vault) pageAEAD() (cipher.AEAD, error) {
	k, err := v.lasting(vaultwire.PurposePage)
	if err != nil {
		return nil, err
	}
	return newGCM(k.raw.Slice())
}

// SealPage implements [vaultwire.Vault].
func (v *Vault) SealPage(_ context.Context, q vaultwire.Text) (a vaultwire.Text, err error) {
	aead, err := v.pageAEAD()
	if err == nil {
		a.Text = aead.Seal(nil, nil, q.Text, nil)
	}
	return a, err
}

// OpenPage implements [vaultwire.Vault].
func (v *Vault) OpenPage(_ context.Context, q vaultwire.Text) (a vaultwire.Text, err error) {
	aead, err := v.pageAEAD()
	if err != nil {
		return a, err
	}
	if a.Text, err = aead.Open(nil, nil, q.Text, nil); err != nil {
		err = fmt.Errorf("open the state of a sign-in: %w", vaultwire.ErrSealed)
	}
	return a, err
}
