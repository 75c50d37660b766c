package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// byteSize is a flag value such as 64M or 1GiB; units are powers of 1024. (To
// go-humanize 64M is 64,000,000.)
type byteSize int64

func (b *byteSize) String() string { return sizeWords(int64(*b)) }

// Type names the value in help texts.
func (b *byteSize) Type() string { return "SIZE" }

// Set reads digits and a unit: none, K, M, G or T, also as KB or KiB.
func (b *byteSize) Set(s string) error {
	digits := strings.TrimRight(s, "BKMGTibkmgt")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("want a size such as 64M or 1GiB")
	}
	unit := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(s[len(digits):]), "B"), "I")
	shift := strings.Index(" KMGT", unit)
	if unit == "" {
		shift = 0
	}
	if shift < 0 || len(unit) > 1 || n > math.MaxInt64>>(10*shift) {
		return fmt.Errorf("want a size such as 64M or 1GiB")
	}
	*b = byteSize(n << (10 * shift))
	return nil
}

// sizeWords prints a size for a person, exactly where a unit fits exactly.
func sizeWords(n int64) string {
	units := []string{"", "K", "M", "G", "T"}
	i := 0
	for n != 0 && n%1024 == 0 && i < len(units)-1 {
		n /= 1024
		i++
	}
	return strconv.FormatInt(n, 10) + units[i]
}

// roughSize prints a size for a person.
func roughSize(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }
