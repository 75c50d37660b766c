package wire

import (
	"encoding/json"
	"testing"
)

func TestAmountText(t *testing.T) {
	for _, tc := range []struct{ name, tokens, yocto, back string }{
		{"registration fee", "0.64", "640000000000000000000000", "0.64"},
		{"whole", "12", "12000000000000000000000000", "12"},
		{"smallest", "0.000000000000000000000001", "1", "0.000000000000000000000001"},
		{"nothing", "0", "0", "0"},
		{"trailing zeros", "1.500", "1500000000000000000000000", "1.5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := ParseTokens(tc.tokens)
			if err != nil {
				t.Fatal(err)
			}
			if got := a.String(); got != tc.yocto {
				t.Errorf("String() = %s, want %s", got, tc.yocto)
			}
			if got := a.Tokens(); got != tc.back {
				t.Errorf("Tokens() = %s, want %s", got, tc.back)
			}
			raw, _ := json.Marshal(a)
			var b Amount
			if err := json.Unmarshal(raw, &b); err != nil || b != a {
				t.Errorf("JSON round trip of %s gave %v, %v", raw, b, err)
			}
		})
	}
}

func TestAmountRefusesWhatIsNotMoney(t *testing.T) {
	for _, s := range []string{"", "-1", "+1", "1.0", "1e9", " 1", "0x10", "340282366920938463463374607431768211456"} {
		if a, err := ParseAmount(s); err == nil {
			t.Errorf("ParseAmount(%q) = %s, want an error", s, a)
		}
	}
	for _, s := range []string{"", ".", "1.", ".5", "-1", "1.2.3", "0.0000000000000000000000001"} {
		if a, err := ParseTokens(s); err == nil {
			t.Errorf("ParseTokens(%q) = %s, want an error", s, a)
		}
	}
	var a Amount
	if err := json.Unmarshal([]byte("1.5"), &a); err == nil {
		t.Error("a JSON number was accepted as an amount")
	}
}

func TestAmountArithmetic(t *testing.T) {
	most, err := ParseAmount("340282366920938463463374607431768211455")
	if err != nil {
		t.Fatal(err)
	}
	one, _ := ParseAmount("1")
	if _, ok := most.Add(one); ok {
		t.Error("overflow was not reported")
	}
	if _, ok := one.Sub(most); ok {
		t.Error("a negative difference was not reported")
	}
	word, _ := ParseAmount("18446744073709551616") // 2^64
	if got, ok := word.Sub(one); !ok || got.String() != "18446744073709551615" {
		t.Errorf("2^64-1 = %s, %v", got, ok)
	}
	if word.Cmp(one) != 1 || one.Cmp(word) != -1 || word.Cmp(word) != 0 {
		t.Error("Cmp orders wrongly across the 64-bit boundary")
	}
}
