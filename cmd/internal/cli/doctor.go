package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/sdk/wire"
)

// States of a [Finding].
const (
	StateOK   = "ok"
	StateWarn = "warn"
	StateFail = "fail"
)

// Finding is one line of doctor.
type Finding struct {
	Check  string   `json:"check"`
	State  string   `json:"state"` // StateOK, StateWarn or StateFail
	Detail string   `json:"detail"`
	Hint   string   `json:"hint,omitempty"` // what to do
	Code   ExitCode `json:"code,omitempty"` // of a failure
	Err    error    `json:"-"`              // of a failure, where it is known
}

// Passed is a check that found all well.
func Passed(check, detail string) Finding {
	return Finding{Check: check, State: StateOK, Detail: detail}
}

// Warned is a check that found what may become a failure.
func Warned(check, detail, hint string) Finding {
	return Finding{Check: check, State: StateWarn, Detail: detail, Hint: hint}
}

// Failed is a check that found a failure.
func Failed(check, detail, hint string) Finding {
	return Finding{Check: check, State: StateFail, Detail: detail, Hint: hint}
}

// FirstFailure returns the first failure among findings.
func FirstFailure(findings []Finding) (f Finding, found bool) {
	i := slices.IndexFunc(findings, func(f Finding) bool { return f.State == StateFail })
	if i < 0 {
		return f, false
	}
	return findings[i], true
}

// CheckLockLimit warns when fewer than need bytes may be kept from a swap device.
func CheckLockLimit(need uint64, enough, hint string) Finding {
	const check = "locked memory"
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return Failed(check, err.Error(), "report this line")
	}
	if limit.Cur < need {
		text := fmt.Sprintf("only %d bytes may be locked: keys may be written to a swap device", limit.Cur)
		return Warned(check, text, hint)
	}
	return Passed(check, enough)
}

// ClockTolerance is how far clocks may be apart: session tokens have a leeway of 30 s.
const ClockTolerance = 30 * time.Second

// SetClock is the hint for a clock that is wrong.
const SetClock = "set the clock: timedatectl set-ntp true"

// Health is the answer of a service that was asked how it is.
type Health struct {
	Status string // of HTTP, such as "200 OK"
	Body   []byte
	Date   time.Time // by the clock of the service; zero when it does not tell
}

// Apart is how far the clocks are apart, in whole seconds; 0 when that is not known.
func (h Health) Apart() time.Duration {
	if h.Date.IsZero() {
		return 0
	}
	return time.Since(h.Date).Round(time.Second).Abs()
}

// AskHealth asks the service at url how it is. It follows no redirection.
func AskHealth(ctx context.Context, url string) (h Health, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(url, "/")+wire.PathHealth, nil)
	if err != nil {
		return h, err
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return h, err
	}
	defer resp.Body.Close()
	h.Status = resp.Status
	h.Date, _ = http.ParseTime(resp.Header.Get("Date"))
	h.Body, err = io.ReadAll(io.LimitReader(resp.Body, wire.MaxJSONBytes))
	return h, err
}
