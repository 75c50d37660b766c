package apikey_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/apikey"
)

// A program takes the key from the environment, else from where it was stored.
func ExampleFirst() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	const address, account = "https://files.example.org", "alice.svc.testnet"
	file := apikey.KeyFile(filepath.Join(dir, "keys"))
	if err := file.Set(address, account, sdk.NewSecret("svc_sk_0123")); err != nil {
		panic(err)
	}
	key, from, err := apikey.First(context.Background(),
		apikey.Env("EXAMPLE_API_KEY"),
		apikey.Stored(file, address, account))
	if err != nil {
		panic(err)
	}
	c, err := sdk.New(account, sdk.Config{URL: address, APIKey: key})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	fmt.Println("the key", key, "is from the file:", from == file.Name())
	// Output: the key redacted is from the file: true
}
