package service_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/svcfs/svcfs/sdk/wire"
)

// The histories of this file are those of parallel clients at two processes over
// one database: each call's start, end and answer, checked for an order of
// single steps that explains every answer.

const (
	historyClients  = 6
	historyRounds   = 25 // calls of each client
	historyPatience = time.Minute
)

// recorder collects the calls of parallel clients.
type recorder struct {
	mu    sync.Mutex
	calls []porcupine.Operation
	start time.Time
}

// call notes one call.
func (r *recorder) call(client int, input any, run func() any) {
	from := time.Since(r.start).Nanoseconds()
	output := run()
	to := time.Since(r.start).Nanoseconds()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, porcupine.Operation{ClientId: client, Input: input, Call: from, Output: output,
		Return: to})
}

// play lets every client make its calls, each with its own random numbers.
// SVCD_HISTORY_SEED repeats a run's choices.
func play(t *testing.T, step func(client int, random *rand.Rand, r *recorder)) []porcupine.Operation {
	t.Helper()
	seed := rand.Uint64()
	if n, err := strconv.ParseUint(os.Getenv("SVCD_HISTORY_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("SVCD_HISTORY_SEED=%d", seed)
	r := &recorder{start: time.Now()}
	var clients sync.WaitGroup
	for i := range historyClients {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			for range historyRounds {
				step(i, random, r)
			}
		})
	}
	clients.Wait()
	return r.calls
}

// explain fails unless some order explains the history, and unless the checker
// refuses it with two answers to one question behind it that differ.
func explain(t *testing.T, model porcupine.Model, calls []porcupine.Operation, question, one, other any) {
	t.Helper()
	if got := porcupine.CheckOperationsTimeout(model, calls, historyPatience); got != porcupine.Ok {
		for _, c := range calls {
			t.Logf("%12d-%12d client %d: %+v: %+v", c.Call, c.Return, c.ClientId, c.Input, c.Output)
		}
		t.Errorf("the history of %d calls is %s", len(calls), got)
	}
	end := int64(0)
	for _, c := range calls {
		end = max(end, c.Return)
	}
	calls = append(calls, porcupine.Operation{Input: question, Call: end + 1, Output: one, Return: end + 2},
		porcupine.Operation{Input: question, Call: end + 3, Output: other, Return: end + 4})
	if got := porcupine.CheckOperationsTimeout(model, calls, historyPatience); got != porcupine.Illegal {
		t.Errorf("a history that contradicts itself is %s", got)
	}
}

// member is a call about the membership of one account.
type member struct {
	account string
	op      string // add, revoke, ask or list
}

// TestHistoryOfMembership: membership is a register. An addition or revocation
// that was refused tells the state it met.
func TestHistoryOfMembership(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	users := []*user{r.user("bob", "1"), r.user("carol", "1")}
	processes := []*running{r, r.again()}
	calls := play(t, func(client int, random *rand.Rand, rec *recorder) {
		at, u := processes[client%2], users[random.IntN(len(users))]
		owner, other := alice.at(at), u.at(at)
		in := member{u.id, []string{"add", "revoke", "ask", "list"}[random.IntN(4)]}
		rec.call(client, in, func() any {
			switch in.op {
			case "add":
				status, _ := owner.tool(wire.OpAddGroupMember, wire.AddMemberRequest{GroupID: "g", MemberID: u.id})
				return status
			case "revoke":
				status, _ := owner.tool(wire.OpRevokeGroupMember, wire.MemberRequest{GroupID: "g", MemberID: u.id})
				return status
			case "ask":
				return at.view("is_authorized", object{"group_id": "g", "user_id": u.id})
			default:
				status, _ := other.tool(wire.OpGetGroupTransactions, wire.TransactionsRequest{GroupID: "g"})
				return status
			}
		})
	})
	model := porcupine.Model{
		Partition: partition(func(input any) string { return input.(member).account }),
		Init:      func() any { return false },
		Step: func(state, input, output any) (bool, any) {
			is := state.(bool)
			switch input.(member).op {
			case "add":
				return output == http.StatusOK && !is || output == http.StatusConflict && is, true
			case "revoke":
				return output == http.StatusOK && is || output == http.StatusConflict && !is, false
			case "ask":
				return output == fmt.Sprint(is), is
			default:
				return output == http.StatusOK && is || output == http.StatusForbidden && !is, is
			}
		},
	}
	explain(t, model, calls, member{users[0].id, "ask"}, "true", "false")
}

// partition splits a history into those of independent keys.
func partition(key func(input any) string) func([]porcupine.Operation) [][]porcupine.Operation {
	return func(calls []porcupine.Operation) (parts [][]porcupine.Operation) {
		at := map[string]int{}
		for _, c := range calls {
			k := key(c.Input)
			if _, known := at[k]; !known {
				at[k] = len(parts)
				parts = append(parts, nil)
			}
			parts[at[k]] = append(parts[at[k]], c)
		}
		return parts
	}
}

// content is a call about the bytes behind one reference.
type content struct {
	name string
	op   string // write, read, list or delete
	sum  string // of the written content
}

const (
	absent  = "absent"
	deleted = "deleted"
)

// TestHistoryOfContent: the bytes behind a reference are written once. Clients race to
// finish the same upload with different bytes. The second gets the answer of the first,
// and no reader ever gets other bytes, until the deletion.
func TestHistoryOfContent(t *testing.T) {
	t.Parallel()
	r, alice := runWithGroup(t)
	processes := []*running{r, r.again()}
	const files = 8
	type prepared struct {
		wire.PrepareUploadResult
		mu  sync.Mutex
		ref string // known when one upload has returned
	}
	uploads := make([]*prepared, files)
	for i := range uploads {
		uploads[i] = &prepared{PrepareUploadResult: must[wire.PrepareUploadResult](alice, wire.OpPrepareUpload,
			wire.PrepareUploadRequest{GroupID: "g", Filename: fmt.Sprint(i)})}
	}
	calls := play(t, func(client int, random *rand.Rand, rec *recorder) {
		u, file := alice.at(processes[client%2]), uploads[random.IntN(files)]
		file.mu.Lock()
		ref := file.ref
		file.mu.Unlock()
		in := content{name: file.Filename,
			op: []string{"write", "write", "list", "read", "read", "read", "read", "delete"}[random.IntN(8)]}
		if ref == "" && in.op != "list" {
			in.op = "write"
		}
		var bytes []byte
		if in.op == "write" {
			bytes = fmt.Appendf(nil, "%s by %d: %d", file.Filename, client, random.Uint64())
			in.sum = hash(bytes)
		}
		rec.call(client, in, func() any {
			switch in.op {
			case "write":
				request := wire.FinalizeUploadRequest{UploadID: file.UploadID, EncryptedData: seal(t, file.Key, bytes),
					FileHash: in.sum}
				status, body := u.tool(wire.OpFinalizeUpload, request)
				var done wire.FinalizeUploadResult // the hybrid body is a bare one too
				if err := json.Unmarshal([]byte(body), &done); status != http.StatusOK || err != nil {
					return fmt.Sprint(status, body)
				}
				file.mu.Lock()
				defer file.mu.Unlock()
				file.ref = done.Location
				return done.FileHash
			case "list":
				for _, row := range u.rows("g") {
					if *row.Filename == file.Filename && row.Deleted != nil {
						return deleted
					} else if *row.Filename == file.Filename {
						return row.FileHash
					}
				}
				return absent
			case "read":
				plain, problem := u.retrieve("g", ref)
				if strings.Contains(problem, wire.CodeFileDeleted) {
					return deleted
				} else if problem != "" {
					return problem
				}
				return fmt.Sprintf("%x", sha256.Sum256(plain))
			default:
				status, _ := u.tool(wire.OpDeleteFile, wire.FileRequest{GroupID: "g", IPFSHash: ref})
				return status
			}
		})
	})
	explain(t, contentModel(), calls, content{name: "0", op: "read"}, hash(nil), hash([]byte("x")))
}

// contentModel knows the first bytes written, and whether they are gone.
func contentModel() porcupine.Model {
	type state struct {
		sum  string // "" = not written
		gone bool
	}
	return porcupine.Model{
		Partition: partition(func(input any) string { return input.(content).name }),
		Init:      func() any { return state{} },
		Step: func(from, input, output any) (bool, any) {
			s, in := from.(state), input.(content)
			shown := s.sum
			switch {
			case s.sum == "":
				shown = absent
			case s.gone:
				shown = deleted
			}
			switch in.op {
			case "write": // a repeat gets the first answer; after the deletion, without the hash
				if s.gone {
					return output == "", s
				}
				if s.sum == "" {
					s.sum = in.sum
				}
				return output == s.sum, s
			case "delete":
				return output == http.StatusOK && s.sum != "", state{s.sum, true}
			default:
				return output == shown, s
			}
		},
	}
}

// money is a call about one balance, in thousandths of a token.
type money struct {
	op     string // spend, fund or ask
	amount int64
}

// TestHistoryOfBalance: a balance is a counter that never goes below zero and refuses
// exactly the charges above it.
func TestHistoryOfBalance(t *testing.T) {
	t.Parallel()
	r := run(t)
	alice := r.user("alice", "2")
	processes := []*running{r, r.again()}
	const price = 640 // of a group
	calls := play(t, func(client int, random *rand.Rand, rec *recorder) {
		u := alice.at(processes[client%2])
		in := []money{{"spend", price}, {"spend", price}, {"fund", int64(1 + random.IntN(700))},
			{"ask", 0}}[random.IntN(4)]
		group := fmt.Sprintf("g%d-%d", client, random.Uint64())
		rec.call(client, in, func() any {
			switch in.op {
			case "spend":
				status, _ := u.tool(wire.OpRegisterGroup, wire.GroupRequest{GroupID: group})
				return int64(status)
			case "fund":
				amount, err := wire.ParseTokens(fmt.Sprintf("%d.%03d", in.amount/1000, in.amount%1000))
				if err != nil {
					return err
				}
				balance, err := u.svc.Fund(t.Context(), "alice", amount)
				if err != nil {
					return err
				}
				return thousandths(t, balance.Tokens())
			default:
				return thousandths(t, u.balance())
			}
		})
	})
	model := porcupine.Model{
		Init: func() any { return int64(2000) },
		Step: func(state, input, output any) (bool, any) {
			have, in := state.(int64), input.(money)
			switch {
			case in.op == "spend" && output == int64(http.StatusPaymentRequired):
				return have < in.amount, have
			case in.op == "spend":
				return output == int64(http.StatusOK) && have >= in.amount, have - in.amount
			case in.op == "fund":
				return output == have+in.amount, have + in.amount
			default:
				return output == have, have
			}
		},
	}
	explain(t, model, calls, money{op: "ask"}, int64(1), int64(2))
}

func thousandths(t *testing.T, tokens string) int64 {
	n, ok := new(big.Rat).SetString(tokens)
	if !ok || !n.Mul(n, big.NewRat(1000, 1)).IsInt() {
		t.Errorf("balance %q", tokens)
		return -1
	}
	return n.Num().Int64()
}
