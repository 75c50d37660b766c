package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
)

// saved is a version of a file of format version 2, and what its uploader knows.
type saved struct {
	ref    string
	sealed [][]byte // blocks
	in     []format.PartID
	keys   map[format.PartID]*format.Key
}

// partSteps are the steps of an upload in parts, of a second one that takes blocks over, of the
// end of the first, and of the sweep after it. Each may die at its points.
func (c *crashing) partSteps(group string) []step {
	plain := bytes.Repeat([]byte(group), int(format.MinBlockBytes))[:5*format.MinBlockBytes+1000]
	layout := format.Layout{Size: int64(len(plain)), BlockBytes: format.MinBlockBytes}
	var upload, from string
	var frame []byte // of the upload, once it was sent
	var key *format.Key
	var first, now saved
	call := func(op string, request, result any) (int, map[string]any) {
		raw, err := json.Marshal(request)
		ok(c.t, err)
		status, body := c.send(http.MethodPost, wire.PathTools+op, c.bearer(), raw)
		answer := struct {
			Result any `json:"result"`
		}{result}
		if status == http.StatusOK {
			ok(c.t, json.Unmarshal(body, &answer))
		}
		return status, map[string]any{"body": string(body)}
	}
	// begin begins an upload on a base.
	begin := func(base *saved) func() (int, map[string]any) {
		return func() (int, map[string]any) {
			var err error
			key, err = format.RandomKey()
			ok(c.t, err)
			upload, from, frame = randomID(), base.ref, nil
			now = saved{sealed: slices.Clone(base.sealed), in: slices.Clone(base.in), keys: maps.Clone(base.keys)}
			if base.ref == "" {
				now = saved{sealed: make([][]byte, layout.Blocks()), in: make([]format.PartID, layout.Blocks()),
					keys: map[format.PartID]*format.Key{}}
			}
			return http.StatusOK, nil
		}
	}
	// put sends blocks as a new part: one that came before a crash is of no use then.
	put := func(first, last int64) func() (int, map[string]any) {
		return func() (int, map[string]any) {
			part, err := format.RandomKey()
			ok(c.t, err)
			cipher, err := format.NewBlockCipher(part)
			ok(c.t, err)
			id, err := format.ParsePartID(randomID())
			ok(c.t, err)
			var body []byte
			for i := first; i <= last; i++ {
				now.sealed[i], err = cipher.Seal(nil, i, plain[i*layout.BlockBytes:i*layout.BlockBytes+layout.Plain(i)])
				ok(c.t, err)
				body = append(body, now.sealed[i]...)
				now.in[i] = id
			}
			now.keys[id] = part
			query := url.Values{"group_id": {group}, "block_size": {fmt.Sprint(layout.BlockBytes)},
				"blocks": {format.Extents{{First: first, Count: last - first + 1}}.String()}}
			status, answer := c.send(http.MethodPut, wire.PathParts+upload+"/"+id.String()+"?"+query.Encode(),
				c.bearer(), body)
			return status, map[string]any{"body": string(answer)}
		}
	}
	record := func() (int, map[string]any) {
		if frame == nil {
			var tree format.Tree
			var m format.Manifest
			for i, id := range now.in {
				tree.Add(format.Leaf(now.sealed[i]))
				wrapped, err := format.WrapKey(key, now.keys[id])
				ok(c.t, err)
				m = append(m, format.Run{Part: id, First: int64(i), Count: 1, Key: wrapped})
			}
			check, err := format.KeyCheck(key)
			ok(c.t, err)
			frame = c.frameOf(upload, group, key, format.NewBlocksMetadata(layout, tree.Root(), check, "", "large"),
				plain, m.Encode(), from)
		}
		status, raw := c.send(http.MethodPut, wire.PathSealed+upload, c.bearer(), frame)
		var answer struct{ Result wire.FinalizeUploadResult }
		if status == http.StatusOK {
			ok(c.t, json.Unmarshal(raw, &answer))
		}
		now.ref = answer.Result.Location
		return status, map[string]any{"body": string(raw)}
	}
	read := func() (int, map[string]any) {
		var answer wire.PrepareRetrieveResult
		if status, out := call(wire.OpPrepareRetrieve, wire.PrepareRetrieveRequest{GroupID: group, IPFSHash: now.ref,
			Formats: []int{1, 2}}, &answer); status != http.StatusOK {
			return status, out
		}
		status, got := c.send(http.MethodGet, answer.DataURL, c.bearer(), nil)
		if !bytes.Equal(got, bytes.Join(now.sealed, nil)) {
			c.t.Errorf("%d bytes are read, and not the %d blocks that were sent", len(got), len(now.sealed))
		}
		return status, nil
	}
	remove := func(v *saved) func() (int, map[string]any) {
		return func() (int, map[string]any) {
			return call(wire.OpDeleteFile, wire.FileRequest{GroupID: group, IPFSHash: v.ref}, nil)
		}
	}
	return []step{
		{name: "register", settled: []int{200}, do: func() (int, map[string]any) {
			return call(wire.OpRegisterGroup, wire.GroupRequest{GroupID: group}, nil)
		}},
		{name: "begin", settled: []int{200}, do: begin(&first)},
		{name: "part", points: []string{"part.stored", "write.before_commit", "write.committed"}, settled: []int{200},
			do: put(0, 3)},
		{name: "last part", settled: []int{200}, do: put(4, 5)},
		{name: "record", points: []string{"write.before_commit", "write.committed", "finalize.recorded"},
			settled: []int{200}, do: record},
		{name: "read", settled: []int{200}, do: func() (int, map[string]any) {
			first = now
			return read()
		}},
		{name: "begin on a base", settled: []int{200}, do: func() (int, map[string]any) { return begin(&first)() }},
		{name: "changed part", settled: []int{200}, do: put(1, 1)},
		{name: "record on a base", points: []string{"finalize.planned"}, settled: []int{200}, do: record},
		{name: "delete the base", points: []string{"delete.blob_removed"}, settled: []int{200}, do: remove(&first)},
		{name: "sweep", points: []string{"tighten.stored", "tighten.recorded"}, settled: []int{200},
			do: func() (int, map[string]any) {
				c.stop() // a start begins with a sweep
				c.start()
				if _, err := os.Stat(c.armed); err == nil {
					_ = c.service.Wait()
					return 0, nil
				}
				return read()
			}},
		{name: "read after the sweep", settled: []int{200}, do: read},
		{name: "delete", points: []string{"write.committed"}, settled: []int{200}, do: remove(&now)},
		{name: "storage", settled: []int{200}, do: func() (int, map[string]any) {
			var kept wire.StorageResult
			status, out := call(wire.OpGetStorage, wire.GroupRequest{GroupID: group}, &kept)
			if kept.Group == nil || kept.Group.Bytes != 0 {
				c.t.Errorf("in the end %s are stored", out["body"])
			}
			return status, out
		}},
	}
}

// walkParts makes the steps of uploads in parts once for each of their points.
func (c *crashing) walkParts() {
	for round, point := range []string{"part.stored", "write.before_commit", "write.committed", "finalize.planned",
		"finalize.recorded", "delete.blob_removed", "tighten.stored", "tighten.recorded"} {
		for _, s := range c.partSteps(fmt.Sprintf("parts%d", round)) {
			crash := slices.Contains(s.points, point)
			c.t.Run(s.name+" "+point, func(t *testing.T) { c.during(t, func() { c.crash(s, point, crash) }) })
		}
	}
	c.check()
}
