package service_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/vaulttest"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// askedVault is a vault of which a test sees who asks for keys of files.
type askedVault struct {
	vaultwire.Vault
	asked               atomic.Int64
	fails, failsToCheck atomic.Bool // the next question
}

func (a *askedVault) Check(ctx context.Context, q vaultwire.Check) (vaultwire.Checked, error) {
	if a.failsToCheck.Swap(false) {
		return vaultwire.Checked{}, &vaultAwayError{}
	}
	return a.Vault.Check(ctx, q)
}

func (a *askedVault) OpenFile(ctx context.Context, q vaultwire.OpenFile) (vaultwire.OpenedFile, error) {
	a.asked.Add(1)
	if a.fails.Swap(false) {
		return vaultwire.OpenedFile{}, &vaultAwayError{}
	}
	return a.Vault.OpenFile(ctx, q)
}

type vaultAwayError struct{}

func (*vaultAwayError) Error() string { return "the vault does not answer" }

// runWithAskedVault is a service with a clock that a test sets forward.
func runWithAskedVault(t *testing.T) (r *running, asked *askedVault, later *atomic.Int64) {
	t.Helper()
	later, asked = new(atomic.Int64), new(askedVault)
	r = runWith(t, service.Config{Database: newDatabase(t),
		Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) },
		Vault: func(ctx context.Context, from, next vaultwire.Source, now func() time.Time,
			away func(error) error) (v vaultwire.Vault, err error) {
			asked.Vault, err = vaulttest.InProcess(ctx, from, next, now, away)
			return asked, err
		}})
	return r, asked, later
}

// opens is what the newest checkpoint says of keys.
func (r *running) opens() wire.Opens {
	r.t.Helper()
	r.checkpoint()
	_, raw := r.get("/tlog/checkpoint")
	_, line, _ := strings.Cut(raw, wire.OpensLine)
	line, _, _ = strings.Cut(line, "\n")
	o, err := wire.ParseOpens(wire.OpensLine + line)
	ok(r.t, err)
	return o
}

// Threat 78: each key that is given out has its record, also one that is given out again for the same claim, and where
// the service did not ask its vault for it each checkpoint says so from then on, as the audit does.
func TestThreat78KeysWithoutARecordAreShown(t *testing.T) {
	t.Parallel()
	r, vault, later := runWithAskedVault(t)
	alice := r.owner()
	ref := alice.upload("g", "a.txt", []byte("content")).CID
	r.checkpoint()
	later.Add(int64(time.Minute)) // a vault that began to follow the log counts soon
	read := object{"group_id": "g", "ipfs_hash": ref, "claim_id": "c"}
	must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve, read)
	r.checkpoint()
	must[wire.PrepareRetrieveResult](alice, wire.OpPrepareRetrieve, read)
	later.Add(int64(wire.RecordedWithin))
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "one"})
	if o := r.opens(); o.Keys != 2 || o.Unrecorded != 0 {
		t.Errorf("%+v after a retrieval that was repeated", o)
	}
	key := vaultwire.WrappedKey{Wrapped: r.wrappedKeys()[ref],
		Binding: vaultwire.Binding{Group: "g", Ref: ref, Version: 1}}
	reader := vaulttest.Reader{Account: alice.id, Token: []byte(alice.token)}
	if _, err := vault.Vault.OpenFile(t.Context(), reader.Claimed(key, time.Now())); err != nil {
		t.Fatal(err)
	}
	later.Add(int64(wire.RecordedWithin)) // nothing is recorded, and all the same a checkpoint says so
	if o := r.opens(); o.Keys != 3 || o.Unrecorded != 1 {
		t.Errorf("%+v after a key was given out without a record", o)
	}
	if report, err := r.svc.AuditReport(t.Context()); err != nil || report.Opens != r.opens() {
		t.Errorf("the audit says %+v, %v", report.Opens, err)
	}
}

// Nothing is asked of the vault before the ledger has the record, and who paid and got no key, because the vault did
// not answer, pays no second time: each retrieval has a record of its own, and the others cost nothing.
func TestKeyIsGivenOutAfterItsRecord(t *testing.T) {
	t.Parallel()
	r, vault, _ := runWithAskedVault(t)
	alice, bob := r.owner(), r.user("bob", "0.03")
	alice.adds(bob)
	ref := alice.upload("g", "a.txt", []byte("content")).CID
	read, before := object{"group_id": "g", "ipfs_hash": ref}, r.checkpoint().N
	fails := func(check bool) {
		t.Helper()
		vault.fails.Store(!check)
		vault.failsToCheck.Store(check)
		if status, _ := bob.tool(wire.OpPrepareRetrieve, read); status != http.StatusInternalServerError {
			t.Errorf("%d although the vault does not answer", status)
		}
	}
	has := func(balance string, more int64) {
		t.Helper()
		if got, n := bob.balance(), r.checkpoint().N; got != balance || n != before+more {
			t.Errorf("balance %s, %d records more, want %s and %d", got, n-before, balance, more)
		}
	}
	fails(true)
	has("0.03", 0)
	fails(false)
	fails(true)
	fails(false)
	bob.reads(ref, "content")
	has("0.017", 3)
	if status, health := r.get("/health"); status != http.StatusOK {
		t.Errorf("%d: a key that was not given is none of the disk: %s", status, health)
	}
	bob.reads(ref, "content")
	has("0.004", 4)
	asked := vault.asked.Load()
	if _, problem := bob.retrieve("g", ref); !strings.Contains(problem, "Insufficient") || vault.asked.Load() != asked {
		t.Errorf("a key was given out for nothing: %s", problem)
	}
}

// Threat 78: whatever members come and go, files are destroyed, keys replaced and retrievals repeated, who is no member
// reads nothing, and the vault gave out as many keys as the ledger has records of retrievals.
func TestThreat78OpensAreClaims(t *testing.T) {
	t.Parallel()
	r, _, later := runWithAskedVault(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	alice := r.owner()
	alice.give("1000")
	users, isMember := []*user{alice, r.user("bob", "100"), r.user("carol", "100")}, []bool{true, false, false}
	r.checkpoint()
	later.Add(int64(time.Minute)) // a vault that began to follow the log counts soon
	living := map[string]bool{}
	var refs []string
	given := int64(0)
	for range 300 {
		i := random.IntN(len(users))
		switch n := random.IntN(20); {
		case n < 3 || len(refs) == 0:
			ref := alice.upload("g", fmt.Sprint(len(refs)), []byte("content")).CID
			refs, living[ref] = append(refs, ref), true
		case n < 5 && i > 0 && isMember[i]:
			must[string](alice, wire.OpRevokeGroupMember, object{"group_id": "g", "member_id": users[i].id})
			isMember[i] = false
		case n < 7 && i > 0 && !isMember[i]:
			alice.adds(users[i])
			isMember[i] = true
		case n == 7:
			ref := refs[random.IntN(len(refs))]
			if living[ref] {
				must[string](alice, wire.OpDeleteFile, object{"group_id": "g", "ipfs_hash": ref})
			}
			living[ref] = false
		case n == 8:
			ok(t, r.svc.RotateUploadKey(t.Context()))
		default:
			ref := refs[random.IntN(len(refs))]
			status, body := users[i].tool(wire.OpPrepareRetrieve, object{"group_id": "g", "ipfs_hash": ref,
				"claim_id": fmt.Sprint(random.IntN(3))})
			if may := isMember[i] && living[ref]; may != (status == http.StatusOK) {
				t.Fatalf("%s reads %s: %d %s, want %v", users[i].id, ref, status, body, may)
			} else if may {
				given++
			}
		}
	}
	later.Add(int64(wire.RecordedWithin))
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "last"})
	if o := r.opens(); o.Keys != given || o.Clear != given || o.Unrecorded != 0 {
		t.Errorf("%+v, %d keys were given", o, given)
	}
	var claims int64
	db := r.openDatabase()
	defer db.Close()
	ok(t, db.QueryRow("SELECT count(*) FROM ledger WHERE kind = 'claim_token' AND ref <> ''").Scan(&claims))
	if _, err := r.svc.Audit(t.Context()); err != nil || claims != given {
		t.Errorf("%d records of retrievals, %d keys: %v", claims, given, err)
	}
}
