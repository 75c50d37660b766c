package web_test

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/svcfs/svcfs/integration/proctest"
)

// patience is how long a test waits for the page.
const patience = proctest.Hang

// chromium is one real browser for all tests; each tab has cookies of its own. The first tab starts it, and
// TestMain closes it. Names below .example lead to this machine, as an attacker's DNS would do.
type chromium struct {
	once sync.Once
	ctx  context.Context
	err  error
	stop func()
}

func (c *chromium) start() (context.Context, error) {
	c.once.Do(func() {
		path, err := exec.LookPath("chromium")
		if err != nil {
			c.err = err
			return
		}
		// No sandbox: it needs privileges that containers lack, and visits only these tests.
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.IgnoreCertErrors,
			chromedp.NoSandbox,
			chromedp.Flag("host-resolver-rules", "MAP *.example 127.0.0.1"), chromedp.Flag("lang", "en-GB"),
			chromedp.Env("TZ=UTC", "LANG=en_GB.UTF-8"))
		allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
		c.ctx, _ = chromedp.NewContext(allocator)
		c.stop = func() { _ = chromedp.Cancel(c.ctx); stop() }
		if err := chromedp.Do(c.ctx); err != nil {
			c.err = fmt.Errorf("start chromium: %w", err)
		}
	})
	return c.ctx, c.err
}

// close ends the browser, if a test started it.
func (c *chromium) close() {
	if c.stop != nil {
		c.stop()
	}
}

// tab is a page in a fresh profile. A message on its console that the test did not
// announce fails the test, including refusals by the content security policy.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
	expected []string
}

func open(t *testing.T, url string) *tab {
	t.Helper()
	proctest.Need(t, "chromium")
	parent, err := theBrowser.start()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil { // opens the tab
		t.Fatal(err)
	}
	messages, listened := chromedp.Console(ctx), make(chan struct{})
	go func() {
		defer close(listened)
		for m, err := range messages {
			if err != nil {
				return
			}
			b.listen(m)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-listened
		b.checkConsole()
	})
	b.do(chromedp.EmulateViewport(1280, 900), chromedp.Navigate(url))
	return b
}

func (b *tab) listen(m chromedp.ConsoleMessage) {
	switch m.Type {
	case "log", "info", "debug":
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, strings.ReplaceAll(m.Text, "\n", " ")+" "+m.URL)
}

// expect announces a text in the console, such as the status of a refusal.
func (b *tab) expect(text string) { b.expected = append(b.expected, text) }

func (b *tab) console() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.problems, "\n")
}

func (b *tab) checkConsole() {
	for line := range strings.Lines(b.console()) {
		known := false
		for _, text := range b.expected {
			known = known || strings.Contains(line, text)
		}
		if !known {
			b.t.Errorf("console: %s", line)
		}
	}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("%v; the page shows: %.600s", err, b.body())
	}
}

// open loads an address in this tab.
func (b *tab) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}

func (b *tab) body() string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body?.innerText ?? ''"))
	return text
}

// js runs a statement in the page.
func (b *tab) js(statement string) {
	b.t.Helper()
	eval[bool](b, statement+"; true")
}

// eval returns the value of an expression, awaited when it is a promise.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v; the page shows: %.600s", expression, err, b.body())
	}
	return value
}

// await waits until an expression is true.
func (b *tab) await(expression string) {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		is, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && is {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("never true: %s (%v); the page shows: %.600s", expression, err, b.body())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// sees waits until the page shows a text.
func (b *tab) sees(text string) {
	b.t.Helper()
	b.await("document.body?.innerText.includes(" + strconv.Quote(text) + ")")
}

// button finds by its accessible name or text, inside an open dialog if there is one.
func button(name string) string {
	return fmt.Sprintf(`Array.from((document.querySelector("dialog[open]") ?? document).querySelectorAll("button, a, summary"))
		.find((e) => (e.getAttribute("aria-label") ?? e.textContent).trim() === %q && !e.disabled && e.offsetParent !== null)`, name)
}

// isDrawn is whether the page is there with its style, no view is about to be drawn, which would move or take away what
// is clicked, and the answer of no dialog is still to be carried out.
const isDrawn = `document.readyState === "complete" && !document.querySelector("main[aria-busy], dialog:not([open])")`

// click clicks where a user would: in the middle of the button.
func (b *tab) click(name string) {
	b.t.Helper()
	b.await(isDrawn + " && " + button(name))
	where := eval[[]float64](b, "(() => { const e = "+button(name)+`; e.scrollIntoView({block: "center"}); const r = e.getBoundingClientRect();
		return [r.x + r.width / 2, r.y + r.height / 2]; })()`)
	b.do(chromedp.MouseClickXY(where[0], where[1]))
}

// fill types into a field of the open form.
func (b *tab) fill(name, text string) {
	b.t.Helper()
	b.await("document.getElementById('f-" + name + "')?.offsetParent")
	b.js("document.getElementById('f-" + name + "').select()")
	b.do(chromedp.KeyEvent(text))
}

func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		b.do(chromedp.KeyEvent(key))
	}
}

// focused is the accessible name of the focused element.
func (b *tab) focused() string {
	b.t.Helper()
	return eval[string](
		b, `(document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent).trim()`)
}

// tabTo presses Tab until the named element has the focus.
func (b *tab) tabTo(name string) {
	b.t.Helper()
	for range 60 {
		b.press(kb.Tab)
		if b.focused() == name {
			return
		}
	}
	b.t.Fatalf("Tab never reaches %q; the page shows: %.600s", name, b.body())
}

// browse opens the page of a user with a fresh session.
func (u *user) browse() *tab {
	u.t.Helper()
	b := open(u.t, u.link())
	b.click("Sign in")
	b.sees("Manage Account")
	b.await("document.getElementById('account')")
	return b
}
