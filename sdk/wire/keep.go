package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bounds of [Keep].
const (
	MaxKeepLast = 10_000 // versions of a name
	MaxKeepDays = 3650
)

// Keep is which older versions of its names a group keeps: the newest Last versions of each
// name, or the versions that were replaced less than Days ago. At most one of both is set.
// The zero Keep keeps all. The newest version of a name always stays.
type Keep struct {
	Last int64 // versions of each name, the newest included; 1 to [MaxKeepLast]
	Days int64 // 1 to [MaxKeepDays]
}

// keepAll is the text of the zero Keep.
const keepAll = "all"

// ParseKeep reads the text of a [Keep]: "all", a number of versions such as "5", or days
// such as "30d".
func ParseKeep(text string) (Keep, error) {
	if text == keepAll {
		return Keep{}, nil
	}
	digits, isDays := strings.CutSuffix(text, "d")
	n, err := strconv.ParseInt(digits, 10, 64)
	limit := int64(MaxKeepLast)
	if isDays {
		limit = MaxKeepDays
	}
	if err != nil || n < 1 || n > limit || strconv.FormatInt(n, 10) != digits {
		return Keep{}, fmt.Errorf("versions %.60q: want all, the newest 1 to %d such as 5, or 1 to %d days such as 30d",
			text, MaxKeepLast, MaxKeepDays)
	}
	if isDays {
		return Keep{Days: n}, nil
	}
	return Keep{Last: n}, nil
}

// String is the text that [ParseKeep] reads.
func (k Keep) String() string {
	switch {
	case k.Days > 0:
		return strconv.FormatInt(k.Days, 10) + "d"
	case k.Last > 0:
		return strconv.FormatInt(k.Last, 10)
	default:
		return keepAll
	}
}

// KeepsAll reports whether k takes no version away.
func (k Keep) KeepsAll() bool { return k == Keep{} }

// Widens reports whether a group that changes from one setting to k keeps every version
// that it kept before.
func (k Keep) Widens(from Keep) bool {
	switch {
	case k.KeepsAll() || k == from:
		return true
	case k.Last > 0 && from.Last > 0:
		return k.Last > from.Last
	default:
		return k.Days > 0 && from.Days > 0 && k.Days > from.Days
	}
}

// VersionSettings is which older versions a group keeps.
type VersionSettings struct {
	Keep   Keep
	Next   Keep      // the setting that is delayed
	NextAt time.Time // when Next begins; zero = none is delayed
}
