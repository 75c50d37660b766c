package sdk

import "context"

// Progress tells how far one transfer of file content is, in bytes on the wire:
// those of JSON are a third more than the file's.
type Progress struct {
	Upload bool
	Done   int64
	Total  int64 // -1 when the service does not tell
}

// progressFloor is the smallest body that is reported, in bytes.
const progressFloor = 64 << 10

type progressKey struct{}

// WithProgress makes calls with the returned context report their transfers of
// file content. report is called often, from other goroutines but never twice at
// a time for one transfer; it must return quickly. A repeated transfer begins at
// 0 again. What has arrived is not verified yet.
func WithProgress(ctx context.Context, report func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// meter counts one body; nil counts nothing.
type meter struct {
	now    Progress
	report func(Progress)
}

func newMeter(ctx context.Context, upload bool, total int64) *meter {
	report, _ := ctx.Value(progressKey{}).(func(Progress))
	if report == nil || total >= 0 && total < progressFloor {
		return nil
	}
	return &meter{now: Progress{Upload: upload, Total: total}, report: report}
}

func (m *meter) add(n int) {
	if m == nil || n == 0 {
		return
	}
	m.now.Done += int64(n)
	m.report(m.now)
}
