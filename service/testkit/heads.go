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
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaulttest"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// NewHead is a request of an account to record sealed uploads, one or many, with changed heads: as if the account
// had sealed the keys for them, which only the service can do.
func (s *Server) NewHead(r *http.Request, account sdk.AccountID, change func(*wire.SealedHead)) *http.Request {
	var out []byte
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
		s.must(s.sealAgain(account, head, change))
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
func (s *Server) sealAgain(account sdk.AccountID, head *wire.SealedHead,
	change func(*wire.SealedHead)) error {
	to := format.SealedFor{Service: ContractID, Account: string(account), Upload: head.ID, Epoch: head.Epoch}
	raw, err := vaulttest.Secret(context.Background(), s.store(), s.masterKey(), vaultwire.PurposeUploads)
	if err != nil {
		return err
	}
	secret, err := format.NewVaultSecret(raw)
	if err != nil {
		return err
	}
	key, err := secret.OpenKey(to, head.Sum(), head.Key())
	if err != nil {
		return err
	}
	change(head)
	return s.sealHead(account, head, key)
}

// sealHead seals the key of an upload for what its head says, under the newest epoch.
func (s *Server) sealHead(account sdk.AccountID, head *wire.SealedHead, key *format.Key) error {
	ctx := context.Background()
	var epoch keys.Epoch
	k, err := vaulttest.Open(ctx, s.store(), s.masterKey())
	if err != nil {
		return err
	}
	err = s.store().Read(ctx, func(tx *store.Tx) (err error) {
		epoch, err = k.Epoch(ctx, tx, time.Now())
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
