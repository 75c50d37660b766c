package sdk_test

import (
	"context"
	"log"
	"slices"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/service/testkit"
)

// exampleTB lets an example start a service that is made for tests.
type exampleTB struct {
	testing.TB
	ends []func()
}

func (*exampleTB) Helper()            {}
func (e *exampleTB) Cleanup(f func()) { e.ends = append(e.ends, f) }

// connect starts a service in memory and returns clients of two accounts with
// 10 tokens each, alice.svc.testnet and bob.svc.testnet.
func connect() (alice, bob *sdk.Client, done func()) {
	tb := &exampleTB{}
	s := testkit.Start(tb, testkit.Ours)
	client := func(name string) *sdk.Client {
		account := s.Account(name, "10")
		cfg := s.Config() // in a program: sdk.Config{URL: "https://files.example.org"}, or nothing for the hosted service
		cfg.APIKey = account.Key
		c, err := sdk.New(account.ID, cfg)
		if err != nil {
			log.Fatal(err)
		}
		tb.Cleanup(func() { _ = c.Close() })
		return c
	}
	alice, bob = client("alice"), client("bob")
	return alice, bob, func() {
		for _, end := range slices.Backward(tb.ends) {
			end()
		}
	}
}

// share is connect with a group "team" of alice's, of which bob is a member.
func share() (team sdk.Group, bob *sdk.Client, done func()) {
	alice, bob, done := connect()
	team = alice.Group("team")
	if _, err := team.Register(context.Background()); err != nil {
		log.Fatal(err)
	}
	if _, err := team.Add(context.Background(), bob.Account()); err != nil {
		log.Fatal(err)
	}
	return team, bob, done
}
