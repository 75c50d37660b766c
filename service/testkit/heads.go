package testkit

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vault"
)

// NewHead is a request of an account to record sealed uploads, one or many, with changed heads: as if the account
// had sealed the keys for them, which only the service can do.
func (s *Server) NewHead(r *http.Request, account sdk.AccountID, change func(*wire.SealedHead)) *http.Request {
	var out []byte
	v := s.openVault()
	for {
		head, err := wire.ReadFrameHead(r.Body, wire.MaxSealedBlob)
		if err == io.EOF {
			break
		}
		if err != nil {
			panic(err) // the client's own frame
		}
		blob := make([]byte, head.BlobSize)
		if _, err := io.ReadFull(r.Body, blob); err != nil {
			panic(err)
		}
		s.must(s.sealAgain(v, account, head, change))
		if out, err = wire.AppendFrameHead(out, head); err != nil {
			panic(err)
		}
		out = append(out, blob...)
	}
	again := r.Clone(r.Context())
	again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(out)), int64(len(out))
	return again
}

// sealAgain changes a head, and seals its key for what it says then.
func (s *Server) sealAgain(v *vault.Vault, account sdk.AccountID, head *wire.SealedHead,
	change func(*wire.SealedHead)) error {
	ctx := context.Background()
	to := format.SealedFor{Service: ContractID, Account: string(account), Upload: head.ID, Epoch: head.Epoch}
	key, err := v.OpenSealedKey(ctx, s.store(), time.Now(), to, head.Sum(), head.Key())
	if err != nil {
		return err
	}
	change(head)
	return s.sealHead(v, account, head, key)
}

// sealHead seals the key of an upload for what its head says, under the newest epoch.
func (s *Server) sealHead(v *vault.Vault, account sdk.AccountID, head *wire.SealedHead, key *format.Key) error {
	ctx := context.Background()
	var epoch vault.Epoch
	err := s.store().Read(ctx, func(tx *store.Tx) (err error) {
		epoch, err = v.Epoch(ctx, tx, time.Now())
		return err
	})
	if err != nil {
		return err
	}
	public, err := format.NewVaultPublic(epoch.Public)
	if err != nil {
		return err
	}
	head.Epoch = epoch.Number
	sealed, err := public.SealKey(format.SealedFor{Service: ContractID, Account: string(account), Upload: head.ID,
		Epoch: head.Epoch}, head.Sum(), key)
	head.SealedKey = encode64(sealed)
	return err
}
