package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
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

	g := alice.Group("team")
	if _, err := g.Register(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := g.Add(ctx, bob.Account()); err != nil {
		log.Fatal(err)
	}
	if _, err := g.Put(ctx, "notes/today.txt", strings.NewReader("Meet at nine.")); err != nil {
		log.Fatal(err)
	}

	f, err := bob.Group("team").Open(ctx, "notes/today.txt")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	content, err := io.ReadAll(f)
	fmt.Printf("%s (%s, by %s) %v\n", content, f.Entry().ContentType, f.Entry().Uploader, err)
	// Output: Meet at nine. (text/plain, by alice.svc.testnet) <nil>
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

// counting is a transport that counts requests.
type counting struct {
	http.RoundTripper
	n int
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n++
	return c.RoundTripper.RoundTrip(r)
}

// Requests go through a transport of the caller's: for metrics, traces, or a proxy.
func ExampleConfig_transport() {
	alice, _, done := connect()
	defer done()
	sent := &counting{RoundTripper: http.DefaultTransport}
	c, err := sdk.New(alice.Account(), sdk.Config{URL: alice.NetworkInfo().MCPURL, Transport: sent})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(c.Health(context.Background()), sent.n)
	// Output: <nil> 1
}

// A credential never shows itself.
func ExampleSecret() {
	key := sdk.NewSecret("svc_sk_do_not_print")
	fmt.Printf("%v %+v %#v %q %x\n", key, key, key, key, key)
	// Output: redacted redacted redacted redacted redacted
}

// Anything that reads can be put; what it was recorded as is the receipt.
func ExampleGroup_Put() {
	team, _, done := share()
	defer done()
	f, err := os.CreateTemp("", "report")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()

	receipt, err := team.Put(context.Background(), "report.txt", f)
	fmt.Println(receipt.Size, receipt.Hash == sdk.ComputeHash(nil), err)
	// Output: 0 true <nil>
}

// A file reads and seeks without a request: all of it was retrieved and verified.
func ExampleGroup_Open() {
	team, _, done := share()
	defer done()
	ctx := context.Background()
	if _, err := team.Put(ctx, "hello.txt", strings.NewReader("hello, world\n")); err != nil {
		log.Fatal(err)
	}

	f, err := team.Open(ctx, "hello.txt")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(7, io.SeekStart); err != nil {
		log.Fatal(err)
	}
	_, err = io.Copy(os.Stdout, f)
	fmt.Println(err)
	// Output:
	// world
	// <nil>
}

// By name, the newest version; by reference, exactly that one.
func ExampleGroup_OpenRef() {
	team, _, done := share()
	defer done()
	ctx := context.Background()
	first, err := team.Put(ctx, "plan.txt", strings.NewReader("one\n"))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := team.Put(ctx, "plan.txt", strings.NewReader("two\n")); err != nil {
		log.Fatal(err)
	}
	newest, err := team.Open(ctx, "plan.txt")
	if err != nil {
		log.Fatal(err)
	}
	defer newest.Close()
	older, err := team.OpenRef(ctx, first.Ref)
	if err != nil {
		log.Fatal(err)
	}
	defer older.Close()
	_, err = io.Copy(os.Stdout, io.MultiReader(newest, older))
	fmt.Println(err)
	// Output:
	// two
	// one
	// <nil>
}

// A file is an [io/fs.File]: for example net/http serves it, ranges included.
func ExampleFile() {
	team, _, done := share()
	defer done()
	ctx := context.Background()
	if _, err := team.Put(ctx, "page.html", strings.NewReader("<h1>hello</h1>")); err != nil {
		log.Fatal(err)
	}
	_ = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := team.Open(r.Context(), "page.html")
		if err != nil {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		defer f.Close()
		info, _ := f.Stat()
		http.ServeContent(w, r, info.Name(), info.ModTime(), f)
	})
}

// Compression is off by default, because old JavaScript clients cannot read compressed
// files.
func ExamplePutOptions() {
	team, _, done := share()
	defer done()
	text := strings.Repeat("the same line again\n", 1000)
	receipt, err := team.Put(context.Background(), "lines.txt", strings.NewReader(text), sdk.PutOptions{Compress: true})
	fmt.Println(receipt.Size, receipt.Hash == sdk.ComputeHash([]byte(text)), err)
	// Output: 20000 true <nil>
}

func ExamplePutOptions_progress() {
	team, _, done := share()
	defer done()
	whole := make(chan bool, 1)
	report := func(done, total int64) {
		if done == total {
			select {
			case whole <- true:
			default:
			}
		}
	}
	if _, err := team.Put(context.Background(), "zeros", strings.NewReader(strings.Repeat("\x00", 1<<20)), sdk.PutOptions{Progress: report}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-whole)
	// Output: true
}

// A list is free. With Since it holds only what changed since then.
func ExampleGroup_List() {
	team, _, done := share()
	defer done()
	ctx := context.Background()
	var seen sdk.Seq
	for _, name := range []string{"a.txt", "b.txt"} {
		if _, err := team.Put(ctx, name, strings.NewReader(name)); err != nil {
			log.Fatal(err)
		}
		for e, err := range team.List(ctx, sdk.ListOptions{Since: seen}) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(e.Name, e.Size, e.Uploader, e.Deleted == nil)
			seen = max(seen, e.ChangedSeq)
		}
	}
	// Output:
	// a.txt 5 alice.svc.testnet true
	// b.txt 5 alice.svc.testnet true
}

func ExampleGroup_Stat() {
	team, _, done := share()
	defer done()
	_, err := team.Stat(context.Background(), "absent.txt")
	fmt.Println(errors.Is(err, sdk.ErrNotFound))
	// Output: true
}

// Members come and go; revoking rotates the group's key.
func ExampleGroup_Revoke() {
	team, bob, done := share()
	defer done()
	ctx := context.Background()
	members, err := team.Members(ctx)
	fmt.Println(members[0].ID, members[1].ID, err)
	if _, err := team.Revoke(ctx, bob.Account()); err != nil {
		log.Fatal(err)
	}
	_, err = bob.Group("team").Entries(ctx)
	fmt.Println(errors.Is(err, sdk.ErrNotAuthorized))
	// Output:
	// alice.svc.testnet bob.svc.testnet <nil>
	// true
}

// A member that only reads.
func ExampleGroup_Add() {
	team, bob, done := share()
	defer done()
	ctx := context.Background()
	_, err := team.Add(ctx, bob.Account(), sdk.RoleReader)
	fmt.Println(err) // the hosted service has no roles: there it is sdk.ErrUnsupported
	// Output: <nil>
}

// A group for submissions: for a day anybody may join, at most a hundred. Joining
// twice is no error and costs nothing.
func ExampleGroup_OpenJoin() {
	alice, bob, done := connect()
	defer done()
	ctx := context.Background()
	submissions := alice.Group("submissions")
	if _, err := submissions.OpenJoin(ctx, time.Now().Add(24*time.Hour), sdk.JoinOptions{AtMost: 100}); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		joined, err := bob.Group("submissions").Join(ctx)
		fmt.Println(joined.Message, err)
	}
	_, err := submissions.CloseJoin(ctx)
	fmt.Println(err)
	// Output:
	// Joined group 'submissions' <nil>
	// Already a member of 'submissions' <nil>
	// <nil>
}

func ExampleSettings_SetRetention() {
	team, _, done := share()
	defer done()
	ctx := context.Background()
	_, err := team.Settings().SetRetention(ctx, 90) // days
	fmt.Println(err)
	_, err = team.Settings().ClearRetention(ctx) // files are kept
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
}

// Owned groups and those of others, in one list. Each can be used at once.
func ExampleClient_Groups() {
	_, bob, done := share()
	defer done()
	ctx := context.Background()
	groups, err := bob.Groups(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, g := range groups {
		owner, err := g.Owner(ctx)
		fmt.Println(g.ID, g.Owned, owner, err)
	}
	// Output: team false alice.svc.testnet <nil>
}

// Questions about a group that need neither a key nor tokens.
func ExampleGroup_Owner() {
	team, bob, done := share()
	defer done()
	ctx := context.Background()
	fmt.Println(team.Owner(ctx))
	fmt.Println(team.IsAuthorized(ctx, bob.Account()))
	_, err := bob.Group("nothing").Owner(ctx)
	fmt.Println(errors.Is(err, sdk.ErrNotFound))
	// Output:
	// alice.svc.testnet <nil>
	// true <nil>
	// true
}

func ExampleGroup_AuthStatus() {
	team, _, done := share()
	defer done()
	status, err := team.AuthStatus(context.Background())
	fmt.Println(status.Authenticated, status.Account, status.Authorized, err)
	// Output: true alice.svc.testnet true <nil>
}

// Amounts are exact; prices are known before they are paid.
func ExampleClient_EstimateFee() {
	alice, _, done := connect()
	defer done()
	ctx := context.Background()
	fee, err := alice.EstimateFee(ctx, sdk.EventRegistered)
	if err != nil {
		log.Fatal(err)
	}
	before, err := alice.Balance(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := alice.Group("team").Register(ctx); err != nil {
		log.Fatal(err)
	}
	after, err := alice.Balance(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	spent, _ := before.Sub(after)
	fmt.Println(fee.Tokens(), spent == fee, after.Tokens())
	// Output: 0.64 true 9.36
}

// Deleting destroys the key; the record stays and says so.
func ExampleGroup_Delete() {
	team, _, done := share()
	defer done()
	ctx := context.Background()
	r, err := team.Put(ctx, "secret.txt", strings.NewReader("secret"))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := team.Delete(ctx, r.Ref); err != nil {
		log.Fatal(err) // sdk.ErrUnsupported where the service does not offer it
	}
	entries, err := team.Entries(ctx)
	fmt.Println(entries[0].Deleted.By, entries[0].Deleted.Reason, err)
	_, err = team.OpenRef(ctx, r.Ref)
	fmt.Println(errors.Is(err, sdk.ErrDeleted))
	// Output:
	// alice.svc.testnet OwnerRequest <nil>
	// true
}

func ExampleGroup_Rename() {
	team, _, done := share()
	defer done()
	ctx := context.Background()
	r, err := team.Put(ctx, "draft.txt", strings.NewReader("text"))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := team.Rename(ctx, r.Ref, "final.txt"); err != nil {
		log.Fatal(err)
	}
	entry, err := team.Stat(ctx, "final.txt")
	fmt.Println(entry.Ref == r.Ref, err)
	// Output: true <nil>
}

// Watch returns events as they happen, where the service offers it. Elsewhere a program
// lists from time to time.
func ExampleClient_Watch() {
	team, bob, done := share()
	defer done()
	ctx := context.Background()
	events, err := bob.Watch(ctx, 0)
	if errors.Is(err, sdk.ErrUnsupported) {
		return // list every few seconds instead
	}
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"report.txt", "figures.txt"} {
		if _, err := team.Put(ctx, name, strings.NewReader("42")); err != nil {
			log.Fatal(err)
		}
	}
	n := 0
	for e, err := range events {
		if err != nil {
			log.Fatal(err) // why the watch is over
		}
		fmt.Println(e.Kind, e.Group, e.Account)
		if n++; n == 2 {
			break
		}
	}
	// Output:
	// record_transaction team alice.svc.testnet
	// record_transaction team alice.svc.testnet
}

// Capabilities returns the dialect of a service, Price its prices, and NetworkInfo its
// addresses.
func ExampleClient_Capabilities() {
	alice, _, done := connect()
	defer done()
	caps, err := alice.Capabilities(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	price, known := alice.Price("upload")
	fmt.Println(caps.Dialect == wire.Ours, price.Tokens(), known, alice.NetworkInfo().Network)
	// Output: true 0.039 true testnet
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

// errors.Is finds the kind of an error. Never match its text.
func ExampleError() {
	alice, _, done := connect()
	defer done()
	_, err := alice.Group("nothing").Stat(context.Background(), "hello.txt")
	switch {
	case errors.Is(err, sdk.ErrNotFound):
		fmt.Println("register the group first")
	case errors.Is(err, sdk.ErrNotAuthorized):
		fmt.Println("ask the owner of the group")
	case errors.Is(err, sdk.ErrInsufficient):
		fmt.Println("deposit tokens")
	case errors.Is(err, sdk.ErrUnavailable), errors.Is(err, sdk.ErrTimeout):
		fmt.Println("try again later")
	case err != nil:
		log.Fatal(err)
	}
	// Output: register the group first
}

// errors.As gives the operation, and what it was about.
func ExampleError_as() {
	team, bob, done := share()
	defer done()
	ctx := context.Background()
	if _, err := team.Revoke(ctx, bob.Account()); err != nil {
		log.Fatal(err)
	}
	_, err := bob.Group("team").Members(ctx)
	var e *sdk.Error
	if errors.As(err, &e) {
		fmt.Println(e.Op, e.Group, e.Kind)
	}
	// Output: list members team not authorized
}

// Programs that map errors to something else switch on the kind.
func ExampleKindOf() {
	alice, _, done := connect()
	defer done()
	_, err := alice.Group("nothing").Stat(context.Background(), "f")
	switch sdk.KindOf(err) {
	case sdk.ErrNotFound, sdk.ErrDeleted:
		fmt.Println("404")
	case sdk.ErrNotAuthorized:
		fmt.Println("403")
	default:
		fmt.Println("500")
	}
	// Output: 404
}

// An account that does not exist differs by its code from a file that does not exist.
func ExampleError_signIn() {
	alice, _, done := connect()
	defer done()
	info := alice.NetworkInfo()
	stranger, err := sdk.New("nobody.svc.testnet", sdk.Config{URL: info.MCPURL, APIKey: sdk.NewSecret("svc_sk_" + strings.Repeat("x", 43))})
	if err != nil {
		log.Fatal(err)
	}
	defer stranger.Close()
	_, err = stranger.MemberGroups(context.Background())
	var refused *sdk.Error
	fmt.Println(errors.As(err, &refused) && refused.Code == wire.CodeAccountUnknown, errors.Is(err, sdk.ErrNotFound))
	// Output: true true
}
