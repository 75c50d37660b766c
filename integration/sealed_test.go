package integration

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/wire"
)

// A save is one request to the service, and eight programs that save at once cost no more.
func TestW2OneRequestASave(t *testing.T) {
	w, alice, _ := team(t)
	target, err := url.Parse("http://" + w.addr)
	ok(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	var mu sync.Mutex
	hits := map[string]int{}
	service := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		mu.Lock()
		path := r.URL.Path
		if strings.HasPrefix(path, wire.PathSealed) {
			path = wire.PathSealed
		}
		hits[path]++
		mu.Unlock()
		proxy.ServeHTTP(out, r)
	}))
	t.Cleanup(service.Close)
	alice.mount("a", "--url", service.URL)
	shell(t, w.dir, "echo warm >a/team/warm")
	spent := func(script string) map[string]int {
		mu.Lock()
		clear(hits)
		mu.Unlock()
		shell(t, w.dir, script)
		mu.Lock()
		defer mu.Unlock()
		paths := maps.Clone(hits)
		for _, look := range []string{wire.OpWatch, wire.OpGetGroupTransactions, wire.OpGetOwnedGroups,
			wire.OpGetMemberGroups} {
			delete(paths, wire.PathTools+look) // what others changed: by the watch, and now and then
		}
		return paths
	}
	if got := spent("for i in $(seq 10); do head -c 4096 /dev/urandom >a/team/$i; done"); !maps.Equal(got,
		map[string]int{wire.PathSealed: 10}) {
		t.Errorf("10 saves are %v", got)
	}
	got := spent("for i in $(seq 8); do (for j in $(seq 10); do head -c 4096 /dev/urandom >a/team/$i-$j; done) & " +
		"done; wait")
	if sum := got[wire.PathSealed] + got[wire.PathTools+wire.OpFinalizeUploads]; sum == 0 || sum > 80 ||
		len(slices.Collect(maps.Keys(got))) > 2 {
		t.Errorf("80 saves of 8 programs are %v", got)
	}
	t.Log("80 saves of 8 programs:", got)
	files := strings.Fields(shell(t, w.dir, "ls a/team"))
	if len(files) != 91 {
		t.Errorf("%d files", len(files))
	}
}

// W11: a save that has no answer does not stand for a later one of the same content: what was saved last is there, and
// nobody is told of a conflict.
func TestW11SaveAgainAfterOneWithoutAnswer(t *testing.T) {
	for name, arrives := range map[string]bool{"the answer is lost": true, "the request is lost": false} {
		t.Run(name, func(t *testing.T) {
			w, alice, bob := team(t)
			target, err := url.Parse("http://" + w.addr)
			ok(t, err)
			proxy := httputil.NewSingleHostReverseProxy(target)
			var broken atomic.Bool
			service := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
				if !broken.Load() || !strings.HasPrefix(r.URL.Path, wire.PathSealed) {
					proxy.ServeHTTP(out, r)
					return
				}
				if arrives {
					proxy.ServeHTTP(httptest.NewRecorder(), r)
				}
				panic(http.ErrAbortHandler)
			}))
			t.Cleanup(service.Close)
			a := alice.mount("a", "--url", service.URL)
			b := bob.mount("b")
			for _, made := range []string{"HEAD.lock", "HEAD.tmp"} { // the first is recorded when it is closed
				folder, replace := a.path("team"), "printf %s >"+made+" && mv "+made+" HEAD"
				shell(t, folder, fmt.Sprintf(replace, "base"))
				broken.Store(true)
				shell(t, folder, "! ("+fmt.Sprintf(replace, "branch")+")")
				broken.Store(false)
				shell(t, folder, fmt.Sprintf(replace, "other"))
				shell(t, folder, fmt.Sprintf(replace, "branch"))
				for _, m := range []*mount{a, b} {
					proctest.Eventually(t, "what was saved last is there", func() bool {
						return shell(t, m.path("team"), "ls; cat HEAD") == "HEAD\nbranch"
					})
				}
			}
			if text := string(read(t, a.path(".svcfs/errors"))); strings.Contains(text, "\tconflict\t") {
				t.Errorf("errors holds %s", text)
			}
		})
	}
}
