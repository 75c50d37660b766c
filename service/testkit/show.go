package testkit

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/checkpoint"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaulttest"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Log returns the ledger that the service shows. From the first call on that is a copy of its own, as
// it is signed, which a test may change.
func (s *Server) Log() *Log {
	s.tb.Helper()
	if l := s.log(); l != nil {
		return l
	}
	key, err := vaulttest.Secret(context.Background(), s.store(), s.masterKey(), vaultwire.PurposeLog)
	s.must(err)
	l := emptyLog(checkpoint.Origin(strings.TrimPrefix(s.URL, "http://"), ContractID), ed25519.NewKeyFromSeed(key))
	s.follow(l)
	s.Show(l)
	return l
}

// Show makes the service show another ledger from now on. What was recorded before, and is not in it, is left out.
func (s *Server) Show(l *Log) {
	s.tb.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	s.must(s.store().Read(context.Background(), func(tx *store.Tx) error {
		return tx.QueryRowContext(context.Background(), "SELECT COALESCE(max(seq), 0) FROM ledger").Scan(&l.of)
	}))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = l
}

func (s *Server) log() *Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown
}

// masterKey is the place of the service's master key.
func (s *Server) masterKey() vaultwire.Source { return vaultwire.InDirectory(s.cfg.DataDir) }

// follow adds to l what the service has recorded since.
func (s *Server) follow(l *Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	walk, after := ledger.Walk{}, l.of
	err := s.store().Read(context.Background(), func(tx *store.Tx) error {
		_, err := walk.Next(context.Background(), tx, math.MaxInt32, func(r chain.Row) error {
			if r.Seq > l.of {
				l.append(r.Record)
				l.of = r.Seq
			}
			return nil
		})
		return err
	})
	if err == nil {
		err = s.openTo(l, after)
	}
	if err != nil {
		s.tb.Error(err)
	}
}

// openTo tells l what the records after a sequence commit to.
func (s *Server) openTo(l *Log, after int64) error {
	ctx := context.Background()
	type opening struct {
		seq             int64
		group           string
		sealed, wrapped []byte
	}
	var list []opening
	err := s.store().Read(ctx, func(tx *store.Tx) (err error) {
		list, err = store.List(ctx, tx, "read openings",
			func(o *opening) []any { return []any{&o.seq, &o.group, &o.sealed, &o.wrapped} },
			`SELECT openings.seq, group_id, sealed, wrapped_key FROM openings JOIN files ON files.seq = openings.seq JOIN groups ON groups.id = group_id
				JOIN file_keys ON file_keys.id = list_key WHERE openings.seq > ?`, after)
		return err
	})
	if err != nil || len(list) == 0 {
		return err
	}
	v, err := vaulttest.Open(context.Background(), s.store(), s.masterKey())
	if err != nil {
		return err
	}
	of := map[string]keys.ListKey{}
	for _, o := range list {
		if _, ok := of[o.group]; !ok {
			raw, err := v.OpenList(context.Background(), vaultwire.OpenList{Group: o.group, Wrapped: o.wrapped})
			if err != nil {
				return err
			}
			key, err := format.NewKey(raw.Key)
			if err != nil {
				return err
			}
			if of[o.group], err = keys.NewListKey(key); err != nil {
				return err
			}
		}
		if opened, ok := of[o.group].Open(o.seq, o.sealed); ok {
			l.Know(opened)
		}
	}
	return nil
}

// showing answers as next does, but for what the ledger and its key have a part in.
func (s *Server) showing(l *Log, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, isTlog := strings.CutPrefix(r.URL.Path, wire.PathTlog)
		switch {
		case isTlog && (path == "checkpoint" || path == "key" || path == wire.TlogKeys):
			s.follow(l)
			_, _ = w.Write(l.tlog(path))
		case r.URL.Path == wire.PathTools+wire.OpGetGroupTransactions:
			s.showRows(l, next, w, r)
		case r.URL.Path == wire.PathCapabilities:
			answer := record(next, r)
			var caps wire.Capabilities
			if json.Unmarshal(answer.Body.Bytes(), &caps) != nil || caps.Vault == nil {
				forward(w, answer)
				return
			}
			public, err := decode64(caps.Vault.PublicKey)
			s.must(err)
			l.SignVault(&caps.Vault.VaultKey, public)
			writeJSON(w, http.StatusOK, caps)
		case records(r.URL.Path):
			answer := record(next, r)
			s.follow(l)
			value, ok := parsed(answer.Body.Bytes())
			if answer.Code != http.StatusOK || !ok {
				forward(w, answer)
				return
			}
			l.mu.Lock()
			l.receipts(value)
			l.mu.Unlock()
			writeJSON(w, http.StatusOK, value)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// records reports whether answers below a path have receipts.
func records(path string) bool {
	switch strings.TrimPrefix(path, wire.PathTools) {
	case wire.OpFinalizeUpload, wire.OpFinalizeUploads, wire.OpRenameFolder, wire.OpMakeFolder,
		wire.OpRemoveFolder, wire.OpRenameFile, wire.OpSetAttributes, wire.OpDeleteFile, wire.OpRemoveFile,
		wire.OpRestoreFile:
		return true
	}
	return strings.HasPrefix(path, wire.PathSealed)
}

// showRows answers a list of records of l, where the service gives one.
func (s *Server) showRows(l *Log, next http.Handler, w http.ResponseWriter, r *http.Request) {
	raw, again := body(r)
	answer := record(next, again)
	var req wire.TransactionsRequest
	if answer.Code != http.StatusOK || json.Unmarshal(raw, &req) != nil || req.Kinds == "" {
		forward(w, answer)
		return
	}
	s.follow(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	if req.Kinds == wire.KindsAll {
		writeJSON(w, http.StatusOK, map[string]any{"result": l.all(req)})
		return
	}
	rows, err := l.list(req)
	s.must(err)
	writeJSON(w, http.StatusOK, rows)
}

// receipts puts the records and receipts of l in the place of those in an answer.
func (l *Log) receipts(value any) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			l.receipts(item)
		}
	case map[string]any:
		if r := l.told(v["record"]); r != nil {
			v["record"], v["receipt"] = l.receiptOf(r)
			return
		}
		rows, _ := v["records"].([]any)
		for i := range rows {
			if r := l.told(rows[i]); r != nil {
				_, v["receipt"] = l.receiptOf(r)
				rows[i] = l.hashedRow(r)
			}
		}
		for _, item := range v {
			l.receipts(item)
		}
	}
}

// told returns the record of l that a row of an answer tells of, or nil.
func (l *Log) told(row any) *chain.Record {
	told, _ := row.(map[string]any)
	for i := range l.records {
		if r := &l.records[i]; told != nil && r.Tx == told["trans_id"] {
			return r
		}
	}
	return nil
}

func (l *Log) tlog(path string) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch path {
	case "key":
		return []byte(l.VerifierKey() + "\n")
	case wire.TlogKeys:
		raw, _ := json.Marshal(wire.LogKeys{Statements: l.statements})
		return raw
	default:
		return l.checkpoint()
	}
}

// SignVault puts a public key into k and signs it.
func (l *Log) SignVault(k *wire.VaultKey, public []byte) {
	text := chain.VaultKey{Origin: l.origin, Epoch: k.Epoch, KEM: k.KEM, Public: public, NotAfter: k.NotAfter}.Text()
	k.PublicKey, k.Signature = encode64(public), encode64(ed25519.Sign(l.key, text))
}

// NextEpoch begins another epoch of the vault's key. With end the earlier ones end at once: the new one
// is old enough for that.
func (s *Server) NextEpoch(end bool) {
	s.tb.Helper()
	if end {
		s.clock.Store(-int64(2 * vaultwire.EpochLife))
		defer s.clock.Store(0)
	}
	s.must(s.Service.RotateUploadKey(context.Background()))
	// the service reads its keys again
	record(s.behind, httptest.NewRequest(http.MethodGet, wire.PathCapabilities, nil))
}

// WithoutSealed takes the vault's key away.
func (s *Server) WithoutSealed() { s.Disturb(wire.PathCapabilities, s.keyless) }

// keyless leaves out of the capabilities what needs the vault's key.
func (s *Server) keyless(next http.Handler) http.Handler {
	silent := Changed(next, func(c *wire.Capabilities) { c.Vault = nil })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == wire.PathCapabilities {
			silent.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// OpensInSilence has the vault give out a key for a retrieval that is not recorded, as who took over a service can.
func (s *Server) OpensInSilence() {
	s.tb.Helper()
	ctx, group := context.Background(), "silent"
	owner := vaultwire.Binding{Group: group, Ref: "bafy", Version: 1}
	wrapped, err := s.vault.Wrap(ctx, vaultwire.Wrap{Root: 1, Binding: owner, Key: make([]byte, vaultwire.KeyBytes)})
	s.must(err)
	account := s.Account("silent", "1")
	s.call(account, wire.OpRegisterGroup, wire.GroupRequest{GroupID: group}, nil)
	s.giveGroup(group)
	var credential []byte
	s.must(s.store().Read(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT credential FROM accounts WHERE id = ?", account.ID).Scan(&credential)
	}))
	token, err := s.vault.IssueToken(ctx, vaultwire.IssueToken{Credential: credential,
		Key: []byte(account.Key.Reveal()), Claims: vaultwire.Claims{Account: string(account.ID), Issued: time.Now(),
			Expires: time.Now().Add(time.Hour)}})
	s.must(err)
	reader := vaulttest.Reader{Account: string(account.ID), Token: token.Text}
	_, err = s.vault.OpenFile(ctx, reader.Claimed(vaultwire.WrappedKey{Binding: owner,
		Wrapped: wrapped.Wrapped}, time.Now()))
	s.must(err)
}

// giveGroup gives the vault the chain of a group.
func (s *Server) giveGroup(group string) {
	s.tb.Helper()
	l := emptyLog("o", nil)
	s.follow(l)
	tree, err := s.vault.NewestTree(context.Background(), vaultwire.Nothing{})
	s.must(err)
	name := chain.OfGroup(group)
	q := vaultwire.Follow{Group: group, Chains: l.trees[tree.Records].Part([]chain.Hash{chain.Key(name)})}
	for _, r := range l.records {
		if r.Chain == name {
			q.Records = append(q.Records, r)
		}
	}
	_, err = s.vault.Follow(context.Background(), q)
	s.must(err)
}
