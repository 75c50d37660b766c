package testkit

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// addPart makes what lies about parts of a group are about: addHistory, and three files in docs.
func (w *World) addPart(tb testing.TB, g sdk.Group) {
	tb.Helper()
	w.addHistory(tb, g)
	for _, name := range []string{"docs/a.txt", "docs/b.txt", "docs/c.txt", "docs/gone.txt", "others/x.txt"} {
		w.put(tb, g, name, []byte(name))
	}
	_, err := g.Remove(tb.Context(), "docs/gone.txt")
	w.must(err)
}

// partLies are about answers for one name, or for one folder. The signed root of names is the true one.
func partLies() []Lie {
	row := func(change func(row map[string]any)) Mutation {
		return proven(func(_ *World, answer map[string]any) {
			for _, row := range answer["rows"].([]any) {
				change(row.(map[string]any))
			}
		})
	}
	other := OpeningFor("other content")
	return like(Lie{On: OnPart, Path: pathNames, Want: sdk.ErrCorrupt, Threat: 76,
		Proven: "does not prove"},
		Lie{Name: "name hidden on a page", Mutate: ofDocs(func(p *chain.FolderProof, rows []any) []any {
			p.Inside = p.Inside[1:]
			return rows[1:]
		})},
		Lie{Name: "removed name shown on a page", Mutate: ofDocs(func(p *chain.FolderProof, rows []any) []any {
			c := p.Inside[0]
			c.Name = "gone.txt"
			p.Inside = append(p.Inside, c)
			return append(rows, rows[0])
		})},
		Lie{Name: "names swapped on a page", Mutate: ofDocs(func(p *chain.FolderProof, rows []any) []any {
			p.Inside[0].Name, p.Inside[1].Name = p.Inside[1].Name, p.Inside[0].Name
			return rows
		})},
		Lie{Name: "page with a hole", Mutate: asked(func(req *wire.LivingRequest) {
			if req.Folder == "docs" {
				req.From, req.Limit = hex.EncodeToString(append([]byte{0x80}, make([]byte, 31)...)), 1
			}
		})},
		Lie{Name: "page of another folder", Mutate: asked(func(req *wire.LivingRequest) {
			if req.Folder == "docs" {
				req.Folder = "others"
			}
		})},
		Lie{Name: "folder hidden", Mutate: asked(func(req *wire.LivingRequest) {
			if req.Folder == "docs" {
				req.Folder = "nothing"
			}
		})},
		Lie{Name: "one name hidden", Mutate: asked(func(req *wire.LivingRequest) {
			if req.Name == "draft.txt" {
				req.Name = "nothing.txt"
			}
		})},
		Lie{Name: "another name shown", Mutate: asked(func(req *wire.LivingRequest) {
			if req.Name == "draft.txt" {
				req.Name = "payroll.txt"
			}
		})},
		Lie{Name: "uploader changed beside a proof", Mutate: row(func(row map[string]any) {
			row["user_id"] = "ceo.svc.testnet"
		})},
		Lie{Name: "size changed beside a proof", Mutate: row(func(row map[string]any) {
			row["opening"] = other.String()
		})},
		Lie{Name: "record left out beside a proof", Proven: "missing",
			Mutate: proven(func(_ *World, answer map[string]any) { answer["rows"] = nil })},
		Lie{Name: "proof that is none", Proven: "no proof of names",
			Mutate: proven(func(_ *World, answer map[string]any) { answer["names"] = "AAAA" })},
		Lie{Name: "no root of names beside a proof", Proven: "no root of names",
			Mutate: proven(func(_ *World, answer map[string]any) { delete(answer["proof"].(map[string]any), "names") })},
		Lie{Name: "part of yesterday repeated", Proven: "not signed for this request", Mutate: repeated()},
		Lie{Name: "old root of names", Proven: "signed for other records", Mutate: rootOfBefore()},
	)
}

// ofDocs changes pages of the folder docs.
func ofDocs(change func(p *chain.FolderProof, rows []any) []any) Mutation {
	return proven(func(w *World, answer map[string]any) {
		raw, err := base64.StdEncoding.DecodeString(answer["names"].(string))
		w.must(err)
		if p, err := chain.ParseFolderProof(raw); err == nil && len(p.Way) == 1 {
			answer["rows"] = change(&p, answer["rows"].([]any))
			answer["names"] = base64.StdEncoding.EncodeToString(p.Encode())
		}
	})
}

// asked has the service answer another question.
func asked(change func(*wire.LivingRequest)) Mutation {
	return func(w *World, next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			raw, again := body(r)
			var req wire.LivingRequest
			w.must(json.Unmarshal(raw, &req))
			change(&req)
			raw, err := json.Marshal(req)
			w.must(err)
			again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
			next.ServeHTTP(rw, again)
		})
	}
}

// rootOfBefore signs, for this request, the root of names of the records but the newest.
func rootOfBefore() Mutation {
	return func(w *World, next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			raw, again := body(r)
			var req wire.LivingRequest
			w.must(json.Unmarshal(raw, &req))
			proven(func(w *World, answer map[string]any) {
				l, name := w.Log(), chain.OfGroup(string(w.Group))
				before := l.heads[name]
				for i := range l.records {
					if r := &l.records[i]; r.Chain == name && r.Number == l.heads[name].Number-1 {
						before = chain.PlaceOf(r)
					}
				}
				answer["proof"].(map[string]any)["names"] = l.names(l.statement(name, before), req.Nonce)
			})(w, next).ServeHTTP(rw, again)
		})
	}
}

const pathNames = wire.PathTools + wire.OpGetNames

// TellNames has the service answer for single names as if others lived: it signs their root, and proves the answer by
// it. Lists stay true. change changes the living names, and returns the records that it invented, which are in no log;
// one without Seq has no place in it yet. With nil the service is honest again.
func (s *Server) TellNames(change func(l *Log, living *chain.Replay) (invented []chain.Record)) {
	s.tb.Helper()
	if change == nil {
		s.Disturb(pathNames, nil)
		return
	}
	s.answerParts(func(l *Log, req wire.LivingRequest) (answer wire.LivingResult) {
		l.Names = func(living *chain.Replay, _ *chain.Statement, _ *string) {
			known := append(change(l, living), l.records...)
			p := living.Prove(req.Name, 1)
			answer.Names = p.Encode()
			for _, v := range p.Versions {
				at := slices.IndexFunc(known, func(r chain.Record) bool { return r.Ref == v.Ref })
				row := l.hashedRow(&known[at])
				if row.Seq == 0 {
					row.Place = -1
				}
				answer.Rows = append(answer.Rows, row)
			}
		}
		listed, err := l.list(wire.TransactionsRequest{GroupID: req.GroupID, Nonce: req.Nonce,
			KnownSize: req.KnownSize, Names: true})
		l.Names = nil
		s.must(err)
		proof := listed.(provenRows).Proof
		answer.Proof = &proof
		return answer
	})
}

// answerParts has f answer questions about names from the ledger that the service shows, which is locked.
func (s *Server) answerParts(f func(*Log, wire.LivingRequest) wire.LivingResult) {
	s.tb.Helper()
	l := s.Log()
	s.Answer(pathNames, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := body(r)
		var req wire.LivingRequest
		s.must(json.Unmarshal(raw, &req))
		s.follow(l)
		l.mu.Lock()
		defer l.mu.Unlock()
		writeJSON(w, http.StatusOK, f(l, req))
	})
}

// Uploaded is the nth version of a file, from 1, as the root of names has it.
func (l *Log) Uploaded(name string, nth int) chain.Living { return l.uploaded(name, nth) }

// TellEmptyPages has the service answer for the top of each group with an empty page, each of which is proven by the
// root that it signed: there are 2^depth of them.
func (s *Server) TellEmptyPages(depth int) {
	s.tb.Helper()
	page, root := chain.FolderProof{}, chain.Hash{}
	for range depth {
		page.Path = append([]chain.Hash{root}, page.Path...)
		root = sha256.Sum256(slices.Concat([]byte{1}, root[:], root[:]))
	}
	s.answerParts(func(l *Log, req wire.LivingRequest) wire.LivingResult {
		listed, err := l.list(
			wire.TransactionsRequest{GroupID: req.GroupID, Nonce: req.Nonce, KnownSize: req.KnownSize})
		s.must(err)
		proof, name := listed.(provenRows).Proof, chain.OfGroup(req.GroupID)
		state := l.statement(name, l.heads[name])
		proof.Names = &wire.SignedNames{Root: hex.EncodeToString(root[:]),
			ChainHead: l.sign(state, state.NamesText(req.Nonce, root))}
		return wire.LivingResult{Proof: &proof, Names: page.Encode()}
	})
}
