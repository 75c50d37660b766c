package tree

import (
	"slices"
	"strings"
)

// crawlers are programs that read everything for a preview or an index (R5), by
// the first bytes of their names, as /proc/PID/comm cuts them to 15.
func crawlers() []string {
	return []string{"tumblerd", "tracker-miner", "tracker-extract", "localsearch", "baloo_file", "updatedb", "plocate-build",
		"recollindex", "zeitgeist", "gdk-pixbuf-thum", "evince-thumbnai", "totem-video-thu", "ffmpegthumbnail", "gnome-thumbnail",
		"gnome-font-thum", "gsf-office-thum", "papers-thumbnai", "raw-thumbnailer", "webp-pixbuf-thu", "thumbnail", "kioslave-thumb"}
}

// refuseCrawler keeps a known crawler from spending: content that is in memory
// it may read.
func (f *File) refuseCrawler(caller Caller) error {
	if f.t.cfg.AllowCrawlers || caller.Name == nil || f.isCached() {
		return nil
	}
	name := caller.Name()
	if !slices.ContainsFunc(crawlers(), func(known string) bool { return strings.HasPrefix(name, known) }) {
		return nil
	}
	f.t.counts.crawlers.Add(1)
	return &Error{Class: ClassAccess, Err: errText(name + " makes previews or an index, and reading this file would cost"),
		Hint: "Open it with another program once, or mount with --allow-crawlers."}
}
