package ledger

import "testing"

// Threat 31: however many accounts remove on a full disk, they leave a part of its reserve, and something
// to who comes late.
func TestThreat31RemovalsShareTheReserve(t *testing.T) {
	for _, reserve := range []int64{6 << 20, 1 << 30} {
		sum := int64(0)
		for _, owns := range []bool{false, true} {
			others := int64(0)
			for account := range 30 {
				most := removals(reserve, others, owns)
				if most < 600 {
					t.Errorf("account %d may use %d bytes of %d", account, most, reserve)
				}
				others += most
			}
			for range 10_000 {
				others += removals(reserve, others, owns)
			}
			sum += others
		}
		if sum > reserve/4*3 {
			t.Errorf("removals take %d bytes of %d", sum, reserve)
		}
	}
}
