package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// One account shares a file with another.
func Example() {
	alice, bob, done := connect()
	defer done()
	ctx := context.Background()

	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}
	if _, err := alice.AddGroupMember(ctx, "team", bob.Account()); err != nil {
		log.Fatal(err)
	}
	if _, err := alice.UploadBytes(ctx, "team", "notes/today.txt", []byte("Meet at nine.")); err != nil {
		log.Fatal(err)
	}

	content, plain, err := bob.RetrieveBytes(ctx, "team", "notes/today.txt")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s (%d bytes, %s)\n", content, plain.Size, plain.ContentType)
	// Output: Meet at nine. (13 bytes, text/plain)
}

// A client of a self-hosted service; without URL it is one of the hosted service.
func ExampleNew() {
	c, err := sdk.New("alice.svc.testnet", sdk.Config{
		URL:    "https://files.example.org",
		APIKey: sdk.NewSecret(os.Getenv("SVC_API_KEY")),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	info := c.NetworkInfo()
	fmt.Println(c.Account(), info.Network, info.MCPURL, info.RPCURL)
	// Output: alice.svc.testnet testnet https://files.example.org https://files.example.org/rpc
}

// Plain http is only for this machine.
func ExampleNew_refused() {
	_, err := sdk.New("alice.svc.testnet", sdk.Config{URL: "http://files.example.org"})
	fmt.Println(errors.Is(err, sdk.ErrInvalid))
	// Output: true
}

// A credential never shows itself.
func ExampleSecret() {
	key := sdk.NewSecret("svc_sk_do_not_print")
	fmt.Printf("%v %+v %#v %q %x\n", key, key, key, key, key)
	// Output: redacted redacted redacted redacted redacted
}

// Large files stay in buffers of a pool: outside the garbage-collected heap,
// sealed in place, and wiped when they are released.
func ExampleClient_Upload() {
	alice, _, done := connect()
	defer done()
	ctx := context.Background()
	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}

	b, err := alice.Pool().Get(5)
	if err != nil {
		log.Fatal(err)
	}
	defer b.Release()
	copy(b.Bytes(), "hello")

	receipt, err := alice.Upload(ctx, "team", "hello.txt", b)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(receipt.Hash, receipt.Size, receipt.Fee.Tokens())
	fmt.Println(receipt.Ref != "", receipt.Tx != "")
	// Output:
	// 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824 5 0.039
	// true true
}

func ExampleClient_UploadBytes() {
	alice, _, done := connect()
	defer done()
	ctx := context.Background()
	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}
	receipt, err := alice.UploadBytes(ctx, "team", "hello.txt", []byte("hello"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(receipt.Hash == sdk.ComputeHash([]byte("hello")))
	// Output: true
}

// Readers, writers and files work too. What is written to a writer was verified
// first.
func ExampleClient_UploadReader() {
	alice, _, done := connect()
	defer done()
	ctx := context.Background()
	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}
	if _, err := alice.UploadReader(ctx, "team", "hello.txt", strings.NewReader("hello\n")); err != nil {
		log.Fatal(err)
	}
	if _, err := alice.RetrieveTo(ctx, "team", "hello.txt", os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output: hello
}

func ExampleClient_RetrieveFile() {
	alice, _, done := connect()
	defer done()
	ctx := context.Background()
	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	here, back := filepath.Join(dir, "report.txt"), filepath.Join(dir, "back.txt")
	if err := os.WriteFile(here, []byte("all is well"), 0o600); err != nil {
		log.Fatal(err)
	}

	if _, err := alice.UploadFile(ctx, "team", "", here); err != nil {
		log.Fatal(err)
	}
	plain, err := alice.RetrieveFile(ctx, "team", "report.txt", back)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plain.Size, plain.Name, plain.ContentType)
	// Output: 11 report.txt text/plain
}

// Compression is opt in: old JavaScript clients cannot read what was compressed.
func ExampleWithDeflate() {
	alice, _, done := connect()
	defer done()
	ctx := context.Background()
	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}
	text := []byte(strings.Repeat("the same line again\n", 1000))
	receipt, err := alice.UploadBytes(sdk.WithDeflate(ctx), "team", "lines.txt", text)
	if err != nil {
		log.Fatal(err)
	}
	back, _, err := alice.RetrieveBytes(ctx, "team", "lines.txt")
	fmt.Println(receipt.Size, receipt.Hash == sdk.ComputeHash(text), len(back), err)
	// Output: 20000 true 20000 <nil>
}

// What was retrieved equals the ledger's hash, or there is an error and nothing
// is in the buffer.
func ExampleClient_Retrieve() {
	alice, _, done := connect()
	defer done()
	ctx := context.Background()
	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}
	if _, err := alice.UploadBytes(ctx, "team", "hello.txt", []byte("hello")); err != nil {
		log.Fatal(err)
	}

	entry, err := alice.Find(ctx, "team", "hello.txt")
	if err != nil {
		log.Fatal(err)
	}
	b, err := alice.Pool().Get(0)
	if err != nil {
		log.Fatal(err)
	}
	defer b.Release()
	plain, err := alice.Retrieve(ctx, entry, b)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %v\n", b.Bytes(), plain.Hash == entry.Hash)
	// Output: hello true
}

// By name, the newest version; by reference, exactly that one.
func ExampleClient_RetrieveBytes() {
	alice, _, done := connect()
	defer done()
	ctx := context.Background()
	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}
	first, err := alice.UploadBytes(ctx, "team", "plan.txt", []byte("one"))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := alice.UploadBytes(ctx, "team", "plan.txt", []byte("two")); err != nil {
		log.Fatal(err)
	}
	newest, _, err := alice.RetrieveBytes(ctx, "team", "plan.txt")
	if err != nil {
		log.Fatal(err)
	}
	older, _, err := alice.RetrieveBytes(ctx, "team", string(first.Ref))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, before it %s\n", newest, older)
	// Output: two, before it one
}

// Listing is free; the second call asks only for what is new.
func ExampleClient_Entries() {
	alice, _, done := connect()
	defer done()
	ctx := context.Background()
	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}
	var seen sdk.Seq
	for _, name := range []string{"a.txt", "b.txt"} {
		if _, err := alice.UploadBytes(ctx, "team", name, []byte(name)); err != nil {
			log.Fatal(err)
		}
		entries, err := alice.Entries(ctx, "team", seen)
		if err != nil {
			log.Fatal(err)
		}
		for _, e := range entries {
			fmt.Println(e.Name, e.Size, e.Uploader, e.Deleted == nil)
			seen = max(seen, e.ChangedSeq)
		}
	}
	// Output:
	// a.txt 5 alice.svc.testnet true
	// b.txt 5 alice.svc.testnet true
}

func ExampleClient_Find() {
	alice, _, done := connect()
	defer done()
	ctx := context.Background()
	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}
	_, err := alice.Find(ctx, "team", "absent.txt")
	fmt.Println(errors.Is(err, sdk.ErrNotFound))
	// Output: true
}

// Members come and go; revoking rotates the group's key.
func ExampleClient_RevokeGroupMember() {
	alice, bob, done := connect()
	defer done()
	ctx := context.Background()
	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}
	if _, err := alice.AddGroupMember(ctx, "team", bob.Account()); err != nil {
		log.Fatal(err)
	}
	members, err := alice.GroupMembers(ctx, "team")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(members)
	if _, err := alice.RevokeGroupMember(ctx, "team", bob.Account()); err != nil {
		log.Fatal(err)
	}
	_, err = bob.Entries(ctx, "team", 0)
	fmt.Println(errors.Is(err, sdk.ErrNotAuthorized))
	// Output:
	// [alice.svc.testnet bob.svc.testnet]
	// true
}

// A group for submissions: for a day anybody may join, at most a hundred.
func ExampleClient_OpenGroup() {
	alice, bob, done := connect()
	defer done()
	ctx := context.Background()
	if _, err := alice.OpenGroup(ctx, "submissions", time.Now().Add(24*time.Hour), 100); err != nil {
		log.Fatal(err)
	}
	for range 2 { // joining twice is fine
		if _, err := bob.JoinGroup(ctx, "submissions"); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := alice.CloseGroup(ctx, "submissions"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(bob.IsAuthorized(ctx, "submissions", bob.Account()))
	// Output: true <nil>
}

// Whole days; nil keeps files for ever.
func ExampleClient_SetGroupRetention() {
	alice, _, done := connect()
	defer done()
	ctx := context.Background()
	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}
	days := int64(90)
	if _, err := alice.SetGroupRetention(ctx, "team", &days); err != nil {
		log.Fatal(err)
	}
	_, err := alice.SetGroupRetention(ctx, "team", nil)
	fmt.Println(err)
	// Output: <nil>
}

// Owned groups and those of others, in one list.
func ExampleClient_Groups() {
	alice, bob, done := connect()
	defer done()
	ctx := context.Background()
	for _, g := range []sdk.GroupID{"team", "private"} {
		if _, err := alice.RegisterGroup(ctx, g); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := alice.AddGroupMember(ctx, "team", bob.Account()); err != nil {
		log.Fatal(err)
	}
	for _, c := range []*sdk.Client{alice, bob} {
		groups, err := c.Groups(ctx)
		if err != nil {
			log.Fatal(err)
		}
		for _, g := range groups {
			fmt.Println(c.Account(), g.ID, g.Owned)
		}
	}
	// Output:
	// alice.svc.testnet private true
	// alice.svc.testnet team true
	// bob.svc.testnet team false
}

// What anybody may ask about a group, without a key and without cost.
func ExampleClient_GroupOwner() {
	alice, bob, done := connect()
	defer done()
	ctx := context.Background()
	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(bob.GroupOwner(ctx, "team"))
	fmt.Println(bob.IsAuthorized(ctx, "team", bob.Account()))
	_, err := bob.GroupOwner(ctx, "nothing")
	fmt.Println(errors.Is(err, sdk.ErrNotFound))
	// Output:
	// alice.svc.testnet <nil>
	// false <nil>
	// true
}

func ExampleClient_AuthStatus() {
	alice, bob, done := connect()
	defer done()
	ctx := context.Background()
	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}
	status, err := bob.AuthStatus(ctx, "team")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status.Authenticated, status.Account, status.Authorized)
	// Output: true bob.svc.testnet false
}

// Amounts are exact; prices are known before they are paid.
func ExampleClient_EstimateFee() {
	alice, _, done := connect()
	defer done()
	ctx := context.Background()
	fee, err := alice.EstimateFee(ctx, "register_group")
	if err != nil {
		log.Fatal(err)
	}
	before, err := alice.Balance(ctx, alice.Account())
	if err != nil {
		log.Fatal(err)
	}
	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}
	after, err := alice.Balance(ctx, alice.Account())
	if err != nil {
		log.Fatal(err)
	}
	spent, _ := before.Sub(after)
	fmt.Println(fee.Tokens(), spent == fee, after.Tokens())
	// Output: 0.64 true 9.36
}

// Deleting destroys the key; the record stays and says so.
func ExampleClient_DeleteFile() {
	alice, _, done := connect()
	defer done()
	ctx := context.Background()
	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}
	r, err := alice.UploadBytes(ctx, "team", "secret.txt", []byte("secret"))
	if err != nil {
		log.Fatal(err)
	}
	if err := alice.DeleteFile(ctx, "team", r.Ref); err != nil {
		log.Fatal(err) // sdk.ErrUnsupported where the service does not offer it
	}
	entry, err := alice.Find(ctx, "team", string(r.Ref))
	fmt.Println(entry.Deleted.By, entry.Deleted.Reason, err)
	_, _, err = alice.RetrieveBytes(ctx, "team", string(r.Ref))
	fmt.Println(errors.Is(err, sdk.ErrDeleted))
	// Output:
	// alice.svc.testnet OwnerRequest <nil>
	// true
}

func ExampleClient_RenameFile() {
	alice, _, done := connect()
	defer done()
	ctx := context.Background()
	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}
	r, err := alice.UploadBytes(ctx, "team", "draft.txt", []byte("text"))
	if err != nil {
		log.Fatal(err)
	}
	if err := alice.RenameFile(ctx, "team", r.Ref, "final.txt"); err != nil {
		log.Fatal(err)
	}
	entry, err := alice.Find(ctx, "team", "final.txt")
	fmt.Println(entry.Ref == r.Ref, err)
	// Output: true <nil>
}

// What happens in the groups of an account is told at once, where the service
// offers that; elsewhere a program asks from time to time.
func ExampleClient_Watch() {
	alice, bob, done := connect()
	defer done()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	events, err := bob.Watch(ctx, 0)
	if errors.Is(err, sdk.ErrUnsupported) {
		return // ask bob.Entries every few seconds instead
	}
	if err != nil {
		log.Fatal(err)
	}
	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}
	if _, err := alice.AddGroupMember(ctx, "team", bob.Account()); err != nil {
		log.Fatal(err)
	}
	if _, err := alice.UploadBytes(ctx, "team", "report.txt", []byte("42")); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		e := <-events
		fmt.Println(e.Kind, e.Group, e.Account)
	}
	// Output:
	// add_group_member team bob.svc.testnet
	// record_transaction team alice.svc.testnet
}

// What a service offers beyond the protocol of the hosted one, what it charges
// and where it is.
func ExampleClient_Capabilities() {
	alice, _, done := connect()
	defer done()
	caps, err := alice.Capabilities(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	price, known := alice.Price("upload")
	fmt.Println(slices.Contains(caps.Features, wire.CapWatch), price.Tokens(), known, alice.NetworkInfo().Network)
	// Output: true 0.039 true testnet
}

// An open group is joined by those who want to; joining twice is no error and
// costs nothing.
func ExampleClient_JoinGroup() {
	alice, bob, done := connect()
	defer done()
	ctx := context.Background()
	if _, err := alice.OpenGroup(ctx, "submissions", time.Now().Add(time.Hour), 100); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		fmt.Println(bob.JoinGroup(ctx, "submissions"))
	}
	// Output:
	// Joined group 'submissions' <nil>
	// Already a member of 'submissions' <nil>
}

func ExampleClient_RefreshToken() {
	alice, _, done := connect()
	defer done()
	fmt.Println(alice.RefreshToken(context.Background()))
	// Output: <nil>
}

func ExampleComputeHash() {
	fmt.Println(sdk.ComputeHash([]byte("hello")))
	// Output: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824
}

func ExampleComputeHashReader() {
	digest, err := sdk.ComputeHashReader(strings.NewReader("hello"))
	fmt.Println(digest, err)
	// Output: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824 <nil>
}

func ExampleWithProgress() {
	alice, _, done := connect()
	defer done()
	ctx := context.Background()
	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}
	whole := make(chan bool, 1)
	ctx = sdk.WithProgress(ctx, func(p sdk.Progress) {
		if p.Upload && p.Done == p.Total {
			select {
			case whole <- true:
			default:
			}
		}
	})
	if _, err := alice.UploadBytes(ctx, "team", "zeros", make([]byte, 1<<20)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-whole)
	// Output: true
}

// Classes of errors are told apart with errors.Is, never by their text.
func ExampleError() {
	alice, bob, done := connect()
	defer done()
	ctx := context.Background()
	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}
	_, err := bob.UploadBytes(ctx, "team", "hello.txt", []byte("hello"))
	switch {
	case errors.Is(err, sdk.ErrNotAuthorized):
		fmt.Println("ask the owner of the group")
	case errors.Is(err, sdk.ErrInsufficient):
		fmt.Println("deposit tokens")
	case errors.Is(err, sdk.ErrUnavailable), errors.Is(err, sdk.ErrTimeout):
		fmt.Println("try again later")
	case err != nil:
		log.Fatal(err)
	}
	// Output: ask the owner of the group
}

// errors.As gives the operation, what it was about, and why it failed.
func ExampleError_as() {
	alice, bob, done := connect()
	defer done()
	ctx := context.Background()
	if _, err := alice.RegisterGroup(ctx, "team"); err != nil {
		log.Fatal(err)
	}
	_, err := bob.GroupMembers(ctx, "team")
	var e *sdk.Error
	if errors.As(err, &e) {
		fmt.Println(e.Op, e.Group, e.Kind, e.Code)
	}
	// Output:
	// list members team not authorized UNAUTHORIZED
}

// Programs that map errors to something else switch on the kind.
func ExampleKindOf() {
	alice, _, done := connect()
	defer done()
	_, err := alice.Entries(context.Background(), "nothing", 0)
	switch sdk.KindOf(err) {
	case sdk.KindNotFound, sdk.KindDeleted:
		fmt.Println("404")
	case sdk.KindNotAuthorized:
		fmt.Println("403")
	default:
		fmt.Println("500")
	}
	// Output: 404
}

// An account that does not exist, told apart from a file that does not.
func ExampleError_signIn() {
	alice, _, done := connect()
	defer done()
	info := alice.NetworkInfo()
	stranger, err := sdk.New("nobody.svc.testnet", sdk.Config{URL: info.MCPURL, APIKey: sdk.NewSecret("svc_sk_of_somebody")})
	if err != nil {
		log.Fatal(err)
	}
	defer stranger.Close()
	_, err = stranger.MemberGroups(context.Background())
	fmt.Println(errors.Is(err, sdk.ErrSignIn), errors.Is(err, sdk.ErrNotFound))
	// Output: true true
}
