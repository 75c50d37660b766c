package integration

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

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
