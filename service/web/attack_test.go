package web_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service"
)

// attacker serves a page of another origin.
func attacker(t *testing.T, html string) (port string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte("<!doctype html><link rel=icon href=data:,><title>attacker</title>" + html))
	}))
	t.Cleanup(server.Close)
	_, port, _ = net.SplitHostPort(server.Listener.Addr().String())
	return port
}

// attacks are the requests that a page of another origin can try with the cookies of the
// browser; each resolves when the browser is done with it.
const attacks = `
	const api = %[1]q + "/account/api/";
	const done = [];
	const attempt = (name, f) => done.push(Promise.resolve().then(f).then((v) => name + ": " + v, () => name + ": refused"));
	const changes = {"key": {replace: true}, "sign-out": {}, "tools/register_group": {group_id: "stolen"}};
	for (const [path, body] of Object.entries(changes)) {
		const json = JSON.stringify(body);
		for (const type of ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"]) attempt("form " + type, () => new Promise((resolve) => {
			const frame = document.createElement("iframe");
			frame.name = "f" + Math.random();
			const form = document.createElement("form");
			Object.assign(form, {action: api + path, method: "POST", enctype: type, target: frame.name});
			const input = document.createElement("input");
			Object.assign(input, {type: "hidden", name: json.slice(0, -1) + ',"x":"', value: '"}'});
			form.append(input);
			document.body.append(frame, form);
			let loads = 0;
			frame.onload = () => { if (++loads > 1) resolve("answered"); };
			form.submit();
			setTimeout(() => resolve("no answer"), 1500);
		}));
		attempt("no-cors", () => fetch(api + path, {method: "POST", mode: "no-cors", credentials: "include", body: json}).then((r) => r.type));
		attempt("cors", () => fetch(api + path, {method: "POST", credentials: "include", body: json,
			headers: {"Content-Type": "application/json", "X-Svc-Page": "1"}}).then((r) => r.status));
		attempt("beacon", () => navigator.sendBeacon(api + path, new Blob([json], {type: "text/plain"})));
	}
	attempt("read", () => fetch(api + "session", {credentials: "include"}).then((r) => r.text()));
	attempt("read groups", () => fetch(api + "groups", {credentials: "include"}).then((r) => r.text()));
	attempt("script", () => new Promise((resolve, reject) => {
		const s = document.createElement("script");
		Object.assign(s, {src: api + "session", onload: () => resolve("loaded"), onerror: reject});
		document.body.append(s);
	}));
	attempt("image", () => new Promise((resolve, reject) => {
		const i = new Image();
		Object.assign(i, {src: %[1]q + "/account/icon.svg", onload: () => resolve("loaded"), onerror: reject});
	}));
	Promise.all(done).then((all) => { window.results = all; });
`

func TestThreat36PagesOfOtherOrigins(t *testing.T) {
	t.Parallel()
	s := serve(t)
	alice := s.user("alice", "100")
	port := attacker(t, "<body><script>"+fmt.Sprintf(attacks, s.url)+"</script>")
	for name, origin := range map[string]string{
		"another site":                 "http://attacker.example:" + port, // no cookies: SameSite=Strict
		"another port of this machine": "http://127.0.0.1:" + port,        // cookies: the same site, another origin
	} {
		t.Run(name, func(t *testing.T) {
			u := &user{&site{t: t, svc: s.svc, dir: s.dir, url: s.url}, alice.id, alice.key}
			b := u.browse()
			for _, text := range []string{"status of 403", "status of 401", "status of 400", "status of 404",
				"blocked by CORS policy", "ERR_FAILED", "frame-ancestors",
				"ERR_BLOCKED_BY_RESPONSE", "X-Frame-Options", "Refused to display", "chrome-error", "MIME type",
				"Cross-Origin"} {
				b.expect(text)
			}
			b.open(origin)
			b.await("window.results")
			for _, result := range eval[[]string](b, "window.results") {
				if strings.Contains(result, "200") || strings.Contains(result, alice.id) ||
					strings.Contains(result, "loaded") {
					t.Errorf("a page of %s: %s", origin, result)
				}
			}
			if status, body := alice.tool(wire.OpGetOwnedGroups, nil); status != http.StatusOK ||
				!strings.Contains(body, `"result":[]`) {
				t.Errorf("the key was rotated or a group was made: %d %s", status, body)
			}
			b.open(s.url + "/account/")
			b.sees("Manage Account")
			b.await("document.getElementById('account')") // still signed in
		})
	}
}

func TestThreat36FramesAreRefused(t *testing.T) {
	t.Parallel()
	log := &lockedBuffer{}
	s := serve(t, withLog(log))
	alice := s.user("alice", "1")
	port := attacker(t, fmt.Sprintf(`<body><iframe src=%q onload="window.framed = true"></iframe>`, s.url+"/account/"))
	b := alice.browse()
	b.expect("frame-ancestors")
	b.expect("X-Frame-Options")
	b.expect("chrome-error")
	asked := strings.Count(log.String(), "operation=/account/app.js")
	for _, host := range []string{"attacker.example", "127.0.0.1"} {
		b.open("http://" + host + ":" + port)
		b.await("window.framed")
	}
	if got := strings.Count(log.String(), "operation=/account/app.js"); got != asked || asked == 0 {
		t.Errorf("the page ran in a frame: its script was asked for %d times, before %d", got, asked)
	}
	if !strings.Contains(b.console(), "frame-ancestors") {
		t.Errorf("the console does not name the policy: %q", b.console())
	}
}

func TestThreat36ReboundNameIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	port := s.url[strings.LastIndex(s.url, ":")+1:]
	b := open(t, "about:blank")
	b.expect("status of 421")
	b.expect("favicon")
	b.open("http://rebound.example:" + port + "/account/") // leads to the service itself
	b.sees("This service is not called rebound.example")
	for _, path := range []string{"/account/api/session", "/account/app.js"} {
		if status := eval[int](b, "fetch('"+path+"').then((r) => r.status)"); status != http.StatusMisdirectedRequest {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func TestThreat36NoInlineScriptRuns(t *testing.T) {
	t.Parallel()
	b := serve(t).user("alice", "1").browse()
	b.expect("Content Security Policy")
	b.expect("This document requires 'Trusted")
	b.js(`(() => {
		const s = document.createElement("script");
		try { s.textContent = "window.pwned = 1"; document.body.append(s); } catch { }
		try { document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.pwned = 1'>"); } catch { }
		const i = document.createElement("img");
		try { i.setAttribute("onerror", "window.pwned = 1"); } catch { }
		i.src = "data:,";
		document.body.append(i);
		const e = document.createElement("script");
		try { e.src = "data:text/javascript,window.pwned=1"; document.body.append(e); } catch { }
	})()`)
	b.open(eval[string](b, "location.origin") + "/account/#/account")
	if eval[bool](b, "window.pwned !== undefined") {
		t.Error("a script ran that is not a file of ours")
	}
	if got := eval[string](b, "fetch('http://attacker.example/').then(() => 'sent', () => "+
		"'refused')"); got != "refused" {
		t.Errorf("a request to another site was %s", got)
	}
}

// TestThreat36SessionOverTLS: the cookie that is for https alone works there.
func TestThreat36SessionOverTLS(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *service.Config) {
		c.PublicURL = "https://files.example" + c.PublicURL[strings.LastIndex(c.PublicURL, ":"):]
	})
	alice := s.user("alice", "1")
	b := alice.browse()
	b.do(chromedp.Reload())
	b.await("document.getElementById('account')?.textContent === '" + alice.id + "'")
	cookies, err := chromedp.Run(b.ctx, func(ctx context.Context, target *chromedp.Target) ([]*network.Cookie, error) {
		found, err := cdp.Call(ctx, target, network.GetCookies, network.GetCookiesParams{})
		return found.Cookies, err
	})
	if err != nil || len(cookies) != 1 {
		t.Fatalf("%v %v", cookies, err)
	}
	if c := cookies[0]; c.Name != "__Host-svc_session" || !c.Secure || !c.HTTPOnly ||
		c.SameSite != network.CookieSameSiteStrict {
		t.Errorf("%+v", c)
	}
	b.click("Sign out")
	b.sees("Ask the operator of this service for a sign-in link")
}
