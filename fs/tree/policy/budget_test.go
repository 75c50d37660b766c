package policy

import (
	"errors"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// budgetStep is one charge: a reservation, and its settlement unless it stays open.
type budgetStep struct {
	after   time.Duration // since the step before
	price   string        // "" = unknown
	fee     string        // settled with it; "" = nothing was charged
	open    bool          // it is not settled
	refused bool
}

// R6: what is spent and what is being spent stay within both limits.
func TestBudget(t *testing.T) {
	for _, tc := range []struct {
		name          string
		limit, hourly string
		steps         []budgetStep
		spent         string
	}{
		{"no limit", "", "", []budgetStep{{price: "1000", fee: "1000"}, {fee: "1"}}, "1001"},
		{"up to the limit", "2", "", []budgetStep{{price: "1", fee: "1"}, {price: "1", fee: "1"}, {price: "1", refused: true}}, "2"},
		{"one charge beyond it", "2", "", []budgetStep{{price: "3", refused: true}, {price: "2", fee: "2"}}, "2"},
		{"charges under way count", "2", "", []budgetStep{{price: "1", open: true}, {price: "2", refused: true}, {price: "1", fee: "1"}}, "1"},
		{"a failed charge is given back", "1", "", []budgetStep{{price: "1"}, {price: "1", fee: "1"}}, "1"},
		{"a charge that was dearer counts in full", "2", "", []budgetStep{{price: "1", fee: "2"}, {price: "1", refused: true}}, "2"},
		{"an unknown price is allowed until the limit", "1", "", []budgetStep{{fee: "1"}, {refused: true}}, "1"},
		{"the hour", "", "1", []budgetStep{{price: "1", fee: "1"}, {after: 59 * time.Minute, price: "1", refused: true}, {after: time.Minute, price: "1", fee: "1"}}, "2"},
		{"the hour and the limit", "2", "1", []budgetStep{{price: "1", fee: "1"}, {after: time.Hour, price: "1", fee: "1"}, {after: time.Hour, price: "1", refused: true}}, "2"},
		{"a failed charge leaves the hour as it was", "", "1", []budgetStep{{price: "1"}, {price: "1", fee: "1"}}, "1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := Budget{Limit: tokens(t, tc.limit), Hourly: tokens(t, tc.hourly)}
			now := time.Unix(1700000000, 0)
			for i, s := range tc.steps {
				now = now.Add(s.after)
				err := b.Reserve(now, tokens(t, s.price))
				var over OverBudget
				if errors.As(err, &over) != s.refused {
					t.Fatalf("step %d: %v, want a refusal: %v", i, err, s.refused)
				}
				if !s.refused && !s.open {
					b.Settle(now, tokens(t, s.price), tokens(t, s.fee))
				}
			}
			if got := b.Spent(); got != tokens(t, tc.spent) {
				t.Errorf("spent %s, want %s", got.Tokens(), tc.spent)
			}
		})
	}
}

// Sums that an amount cannot hold stay at the larger part, and are still refused.
func TestBudgetOfHugeFees(t *testing.T) {
	huge, err := wire.ParseAmount("340282366920938463463374607431768211455") // 2^128-1
	if err != nil {
		t.Fatal(err)
	}
	b := Budget{Limit: tokens(t, "5")}
	b.Settle(time.Time{}, sdk.Amount{}, huge)
	b.Settle(time.Time{}, sdk.Amount{}, tokens(t, "1"))
	if b.Spent() != huge {
		t.Errorf("spent %s", b.Spent())
	}
	if err := b.Reserve(time.Time{}, tokens(t, "1")); err == nil {
		t.Error("a charge beyond the limit is allowed")
	}
}

func tokens(t *testing.T, text string) sdk.Amount {
	t.Helper()
	if text == "" {
		return sdk.Amount{}
	}
	a, err := wire.ParseTokens(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
