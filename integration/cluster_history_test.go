package integration

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

const (
	// historyClients call the processes in parallel, two each.
	historyClients = 6
	// historyNames are the files that they share.
	historyNames = 5
	// killsPerTurn is how many of the kills that a test is asked for are one turn here.
	killsPerTurn = 25
	// storeGone is how long PostgreSQL or S3 is away at most, chosen at random.
	storeGone = 3 * time.Second
	// refutable is how many calls the checker is shown with a lie behind them: to refute a
	// history takes longer than to explain it.
	refutable = 100
	// historyPatience bounds the search for an order.
	historyPatience = 2 * time.Minute
)

// did is a call of the history.
type did struct {
	op   string // put, get, delete; add, revoke, ask
	name string // of the file, or of the member
	sum  string // of the content of a put, or of what a delete destroys
}

// The answers of calls.
const (
	answered = "answered" // a change was acknowledged
	unknown  = "unknown"  // a change may have been made, at any time since
	was      = "was"      // the service says that there was nothing to change
)

// clusterHistory is what clients of a cluster did and were told.
type clusterHistory struct {
	mu    sync.Mutex
	calls []porcupine.Operation
	start time.Time
	good  [3]atomic.Int64 // calls that were answered, by process

	failed []error // of the calls without an answer
}

// call notes a call; a change without an answer may happen until the end of time, and a
// question without one tells nothing.
func (h *clusterHistory) call(client int, in did, run func() (out string, err error)) {
	from := time.Since(h.start).Nanoseconds()
	out, err := run()
	to := time.Since(h.start).Nanoseconds()
	if err == nil {
		h.good[client%len(h.good)].Add(1)
	} else {
		h.mu.Lock()
		h.failed = append(h.failed, fmt.Errorf("%s %s: %w", in.op, in.name, err))
		h.mu.Unlock()
		if in.op == "get" || in.op == "ask" {
			return
		}
		out, to = unknown, math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, porcupine.Operation{ClientId: client, Input: in, Call: from, Output: out, Return: to})
}

// While processes are killed, and PostgreSQL and S3 fail in turns, what parallel clients of
// three processes are told has an order of single steps that explains it: files are the
// contents that were saved and not destroyed, the newest first, and membership is a
// register. Nothing that was acknowledged is missing afterwards, or charged twice.
func TestHistoryOfACluster(t *testing.T) {
	random := rand.New(rand.NewPCG(testSeed(t), 0))
	c := newCluster(t, 3)
	c.history(t, random, c.on, func(h *clusterHistory) { c.turn(t, h, random) })
}

// history has clients call three processes while turn does something to the cluster, a few times, and checks what
// they were told. on is the client of an account that calls one of them.
func (c *cluster) history(t *testing.T, random *rand.Rand, on func(*person, int) *sdk.Client,
	turn func(*clusterHistory)) *clusterHistory {
	t.Helper()
	alice, bob := c.account("alice", startTokens), c.account("bob", "0")
	_, err := c.on(alice, 0).Group("team").Register(t.Context())
	ok(t, err)
	h := &clusterHistory{start: time.Now()}
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for i := range historyClients {
		team, mine := on(alice, i%3).Group("team"), rand.New(rand.NewPCG(random.Uint64(), uint64(i)))
		clients.Go(func() {
			for ctx.Err() == nil {
				h.step(t.Context(), i, team, sdk.AccountID(bob.id), mine)
				time.Sleep(time.Duration(mine.IntN(int(10 * time.Millisecond)))) // what a client does between calls
			}
		})
	}
	turns := max(1, kills(t)/killsPerTurn)
	for range turns {
		turn(h)
		c.allAnswer(t, h)
	}
	stop()
	clients.Wait()
	end := c.on(alice, 0)
	for i := range c.processes { // every process tells the same in the end
		team := c.on(alice, i).Group("team")
		for n := range historyNames {
			name := fmt.Sprint("f", n)
			h.call(i, did{op: "get", name: name}, func() (string, error) { return newestOf(t.Context(), team, name) })
		}
	}
	if n := len(h.calls); n < turns*historyClients {
		t.Errorf("only %d calls were made", n)
	}
	h.explain(t)
	checkBooks(t.Context(), t, end, startTokens)
	h.recorded(t, end)
	t.Logf("%d turns, %d calls, %d without an answer", turns, len(h.calls), len(h.failed))
	return h
}

// allAnswer waits until every process answers calls of clients.
func (c *cluster) allAnswer(t *testing.T, h *clusterHistory) {
	t.Helper()
	for i := range h.good {
		before := h.good[i].Load()
		proctest.Eventually(t, "every process answers", func() bool { return h.good[i].Load() > before+5 })
	}
}

// step makes one call.
func (h *clusterHistory) step(ctx context.Context, client int, team sdk.Group, bob sdk.AccountID, random *rand.Rand) {
	name := fmt.Sprint("f", random.IntN(historyNames))
	switch n := random.IntN(20); {
	case n < 7:
		size := 1 + random.IntN(40_000)
		if random.IntN(40) == 0 {
			size = wire.WholeFileBytes + 1 + random.IntN(1000) // in parts
		}
		content := append(fmt.Appendf(nil, "%d %d ", client, random.Uint64()), make([]byte, size)...)
		h.call(client, did{"put", name, fmt.Sprintf("%x", sha256.Sum256(content))}, func() (string, error) {
			_, err := team.Put(ctx, name, bytes.NewReader(content))
			return answered, err
		})
	case n < 13:
		h.call(client, did{op: "get", name: name}, func() (string, error) { return newestOf(ctx, team, name) })
	case n < 15:
		e, err := team.Stat(ctx, name)
		if err != nil || e.Deleted != nil {
			return
		}
		h.call(client, did{"delete", name, e.Hash.String()}, func() (string, error) {
			_, err := team.Delete(ctx, e.Ref)
			return answered, err
		})
	case n < 18:
		h.call(client, did{op: "ask", name: "bob"}, func() (string, error) {
			in, err := team.IsAuthorized(ctx, bob)
			return fmt.Sprint(in), err
		})
	default:
		change, op := team.Add, "add"
		if n == 19 {
			change, op = func(ctx context.Context, id sdk.AccountID, _ ...sdk.Role) (sdk.Change, error) {
				return team.Revoke(ctx, id)
			}, "revoke"
		}
		h.call(client, did{op: op, name: "bob"}, func() (string, error) {
			_, err := change(ctx, bob)
			if errors.Is(err, sdk.ErrConflict) {
				return was, nil
			}
			return answered, err
		})
	}
}

// newestOf returns the hash of the newest content of a name, "" if there is none.
func newestOf(ctx context.Context, team sdk.Group, name string) (string, error) {
	f, err := team.Open(ctx, name)
	if errors.Is(err, sdk.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

// turn lets each part of the cluster fail once, in an order of chance, and waits until all
// processes answer again.
func (c *cluster) turn(t *testing.T, h *clusterHistory, random *rand.Rand) {
	t.Helper()
	for _, what := range random.Perm(3) {
		victim := random.IntN(len(c.processes))
		before, lasts := h.good[(victim+1)%len(h.good)].Load(), time.Duration(random.IntN(int(storeGone)))
		switch what {
		case 0:
			c.kill(c.processes[victim])
			proctest.Eventually(t, "the other processes go on",
				func() bool { return h.good[(victim+1)%len(h.good)].Load() > before+5 })
			c.start(c.processes[victim])
		case 1:
			c.postgres.Kill()
			time.Sleep(lasts)
			c.postgres.Restart(t)
		default:
			c.s3.Kill()
			time.Sleep(lasts)
			c.s3.Restart(t)
		}
		c.allAnswer(t, h)
	}
}

// explain fails unless an order of single steps explains the history, and unless the
// checker refuses its beginning with a lie behind it.
func (h *clusterHistory) explain(t *testing.T) {
	t.Helper()
	shown := map[string]bool{}
	for _, c := range h.calls {
		if c.Input.(did).op == "get" {
			shown[c.Output.(string)] = true
		}
	}
	// nothing tells whether it was made
	calls := slices.DeleteFunc(slices.Clone(h.calls), func(c porcupine.Operation) bool {
		return c.Output == unknown && c.Input.(did).op == "put" && !shown[c.Input.(did).sum]
	})
	end := int64(0)
	for _, c := range calls {
		if c.Return != math.MaxInt64 {
			end = max(end, c.Return)
		}
	}
	for i := range calls {
		calls[i].Return = min(calls[i].Return, end+1)
	}
	if got := porcupine.CheckOperationsTimeout(clusterModel(), calls, historyPatience); got != porcupine.Ok {
		for _, c := range calls {
			t.Logf("%12d-%12d client %d: %+v: %+v", c.Call, c.Return, c.ClientId, c.Input, c.Output)
		}
		t.Errorf("the history of %d calls is %s", len(calls), got)
	}
	slices.SortFunc(calls, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	calls = calls[:min(len(calls), refutable)]
	lie := porcupine.Operation{Input: did{op: "get", name: "f0"}, Call: end + 2, Output: "never saved", Return: end + 3}
	if got := porcupine.CheckOperationsTimeout(clusterModel(), append(slices.Clone(calls), lie),
		historyPatience); got != porcupine.Illegal {
		t.Errorf("a history with a lie is %s", got)
	}
}

// clusterModel knows the contents of each name that are there, the newest last, and who is
// a member. A change without an answer was made or not. A change that met nothing to change
// may have met its own first attempt, whose answer was lost.
func clusterModel() porcupine.Model {
	model := porcupine.NondeterministicModel{
		Partition: func(calls []porcupine.Operation) (parts [][]porcupine.Operation) {
			byName := map[string]int{}
			for _, c := range calls {
				name := c.Input.(did).name
				if _, known := byName[name]; !known {
					byName[name] = len(parts)
					parts = append(parts, nil)
				}
				parts[byName[name]] = append(parts[byName[name]], c)
			}
			return parts
		},
		Init: func() []any { return []any{""} },
		Step: func(state, input, output any) []any {
			s, in := state.(string), input.(did)
			var next string
			switch in.op {
			case "get":
				if s[strings.LastIndex(s, " ")+1:] != output {
					return nil
				}
				return []any{s}
			case "ask":
				if (s == "in") != (output == "true") {
					return nil
				}
				return []any{s}
			case "put":
				next = s + " " + in.sum
			case "delete":
				next = strings.Replace(s, " "+in.sum, "", 1)
			case "add":
				next = "in"
			case "revoke":
				next = ""
			}
			switch {
			case output == unknown:
				return []any{s, next}
			case output == answered && (in.op == "add" || in.op == "revoke") && s == next:
				return nil // it would have been refused
			}
			return []any{next}
		},
	}
	return model.ToModel()
}

// recorded checks that every save that was acknowledged is in the ledger.
func (h *clusterHistory) recorded(t *testing.T, c *sdk.Client) {
	t.Helper()
	entries, err := c.Group("team").Entries(t.Context())
	ok(t, err)
	in, destroyed := map[string]bool{}, map[string]int{} // of what was destroyed nobody knows the hash
	for _, e := range entries {
		if in[e.Hash.String()] = true; e.Hash == (sdk.Digest{}) {
			destroyed[e.Name]++
		}
	}
	for _, call := range h.calls {
		put := call.Input.(did)
		if put.op != "put" || call.Output != answered || in[put.sum] {
			continue
		}
		if destroyed[put.name]--; destroyed[put.name] < 0 {
			t.Errorf("the save of %s as %s was acknowledged and is not recorded", put.sum, put.name)
		}
	}
}
