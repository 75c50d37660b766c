package wire

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/bits"
	"strings"
)

// AmountDecimals is the number of decimal places of the native token: one
// token is 10^24 yocto.
const AmountDecimals = 24

// Amount is an exact, non-negative quantity of the native token in yocto
// (10^-24), at most 2^128-1. The zero value is nothing. It is comparable with
// ==; on the wire it is a decimal string of yocto.
type Amount struct{ hi, lo uint64 }

// ParseAmount parses decimal digits of yocto, the form of balances and fees on the wire.
func ParseAmount(yocto string) (Amount, error) {
	if yocto == "" || strings.Trim(yocto, "0123456789") != "" || len(yocto) > 64 {
		return Amount{}, fmt.Errorf("amount %.64q: want decimal digits of yocto", yocto)
	}
	v, _ := new(big.Int).SetString(yocto, 10)
	return amountFromBig(v)
}

// ParseTokens parses a decimal number of whole tokens, such as "0.64" or "12".
func ParseTokens(tokens string) (Amount, error) {
	whole, frac, _ := strings.Cut(tokens, ".")
	if whole == "" || len(frac) > AmountDecimals || strings.HasSuffix(tokens, ".") ||
		strings.Trim(whole+frac, "0123456789") != "" {
		return Amount{}, fmt.Errorf("amount %.64q: want tokens such as 12 or 0.64, at most %d decimals", tokens,
			AmountDecimals)
	}
	return ParseAmount(whole + frac + strings.Repeat("0", AmountDecimals-len(frac)))
}

func amountFromBig(v *big.Int) (Amount, error) {
	if v.BitLen() > 128 {
		return Amount{}, fmt.Errorf("amount %s: larger than 2^128-1 yocto", v)
	}
	lo := new(big.Int).And(v, new(big.Int).SetUint64(^uint64(0))).Uint64()
	hi := new(big.Int).Rsh(v, 64).Uint64()
	return Amount{hi: hi, lo: lo}, nil
}

func (a Amount) big() *big.Int {
	v := new(big.Int).SetUint64(a.hi)
	return v.Or(v.Lsh(v, 64), new(big.Int).SetUint64(a.lo))
}

// Add returns a+b; ok is false on overflow.
func (a Amount) Add(b Amount) (sum Amount, ok bool) {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, carry := bits.Add64(a.hi, b.hi, carry)
	return Amount{hi: hi, lo: lo}, carry == 0
}

// Sub returns a-b; ok is false when b is larger than a.
func (a Amount) Sub(b Amount) (diff Amount, ok bool) {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, borrow := bits.Sub64(a.hi, b.hi, borrow)
	return Amount{hi: hi, lo: lo}, borrow == 0
}

// Cmp returns -1, 0 or 1 as a is less than, equal to or more than b.
func (a Amount) Cmp(b Amount) int {
	if a == b {
		return 0
	}
	if a.hi < b.hi || a.hi == b.hi && a.lo < b.lo {
		return -1
	}
	return 1
}

// IsZero reports whether a is 0.
func (a Amount) IsZero() bool { return a == Amount{} }

// String returns the decimal digits of yocto.
func (a Amount) String() string { return a.big().String() }

// Tokens returns whole tokens without trailing zeros, such as "0.64".
func (a Amount) Tokens() string {
	digits := a.String()
	if pad := AmountDecimals + 1 - len(digits); pad > 0 {
		digits = strings.Repeat("0", pad) + digits
	}
	point := len(digits) - AmountDecimals
	frac := strings.TrimRight(digits[point:], "0")
	if frac == "" {
		return digits[:point]
	}
	return digits[:point] + "." + frac
}

// MarshalJSON writes the decimal string of yocto.
func (a Amount) MarshalJSON() ([]byte, error) { return json.Marshal(a.String()) }

// UnmarshalJSON reads a decimal string of yocto.
func (a *Amount) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	v, err := ParseAmount(s)
	if err != nil {
		return err
	}
	*a = v
	return nil
}
