package integration

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
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
	var up wire.PrepareUploadResult
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
	prepare := func(base *saved) func() (int, map[string]any) {
		return func() (int, map[string]any) {
			status, out := call(wire.OpPrepareUpload, wire.PrepareUploadRequest{GroupID: group, Filename: "large", Formats: []int{1, 2}, BlockSize: layout.BlockBytes, Base: base.ref}, &up)
			var err error
			key, err = format.ParseKey(up.Key)
			ok(c.t, err)
			if up.Base != base.ref {
				c.t.Errorf("the base is %q", up.Base)
			}
			now = saved{sealed: slices.Clone(base.sealed), in: slices.Clone(base.in), keys: map[format.PartID]*format.Key{}}
			for id, k := range base.keys {
				now.keys[id] = k
			}
			if base.ref == "" {
				now.sealed, now.in = make([][]byte, layout.Blocks()), make([]format.PartID, layout.Blocks())
			}
			return status, out
		}
	}
	put := func(number int, from, to int64) func() (int, map[string]any) {
		return func() (int, map[string]any) {
			part, err := format.RandomKey()
			ok(c.t, err)
			cipher, err := format.NewBlockCipher(part)
			ok(c.t, err)
			wrapped, err := format.WrapKey(key, part)
			ok(c.t, err)
			var body []byte
			for i := from; i <= to; i++ {
				now.sealed[i], err = cipher.Seal(nil, i, plain[i*layout.BlockBytes:i*layout.BlockBytes+layout.Plain(i)])
				ok(c.t, err)
				body = append(body, now.sealed[i]...)
			}
			header := c.bearer()
			header.Set(wire.HeaderPartKey, base64.StdEncoding.EncodeToString(wrapped[:]))
			header.Set("Expect", "100-continue") // a refusal comes before the body, and is not lost with it
			path := fmt.Sprintf("%s/%d?blocks=%s", up.PartsURL, number, format.Extents{{First: from, Count: to - from + 1}})
			status, answer := c.send(http.MethodPut, path, header, body)
			if status == http.StatusPreconditionFailed { // it came before the crash: it is replaced
				_, list := c.send(http.MethodGet, up.PartsURL, c.bearer(), nil)
				var parts wire.PartsResult
				ok(c.t, json.Unmarshal(list, &parts))
				i := slices.IndexFunc(parts.Parts, func(p wire.Part) bool { return p.Number == int64(number) })
				header.Set("If-Match", `"`+parts.Parts[i].ETag+`"`)
				status, answer = c.send(http.MethodPut, path, header, body)
			}
			if status == http.StatusOK {
				var p wire.Part
				ok(c.t, json.Unmarshal(answer, &p))
				id, err := format.ParsePartID(p.ID)
				ok(c.t, err)
				now.keys[id] = part
				for i := from; i <= to; i++ {
					now.in[i] = id
				}
			}
			return status, map[string]any{"body": string(answer)}
		}
	}
	finalize := func() (int, map[string]any) {
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
		meta, err := json.Marshal(format.NewBlocksMetadata(layout, tree.Root(), check, "", "large"))
		ok(c.t, err)
		var answer wire.FinalizeUploadResult
		status, out := call(wire.OpFinalizeUpload, wire.FinalizeUploadRequest{UploadID: up.UploadID, FileHash: sdk.ComputeHash(plain).String(), Format: meta,
			Manifest: base64.StdEncoding.EncodeToString(m.Encode())}, &answer)
		now.ref = answer.Location
		return status, out
	}
	read := func() (int, map[string]any) {
		var answer wire.PrepareRetrieveResult
		if status, out := call(wire.OpPrepareRetrieve, wire.PrepareRetrieveRequest{GroupID: group, IPFSHash: now.ref, Formats: []int{1, 2}}, &answer); status != http.StatusOK {
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
	finishes := []string{"write.before_commit", "finalize.recorded"}
	return []step{
		{name: "register", settled: []int{200}, do: func() (int, map[string]any) {
			return call(wire.OpRegisterGroup, wire.GroupRequest{GroupID: group}, nil)
		}},
		{name: "prepare", settled: []int{200}, do: prepare(&first)},
		{name: "part 0", points: []string{"part.stored", "write.committed"}, settled: []int{200}, do: put(0, 0, 3)},
		{name: "part 1", settled: []int{200}, do: put(1, 4, 5)},
		{name: "finalize", points: finishes, settled: []int{200}, do: finalize},
		{name: "read", settled: []int{200}, do: func() (int, map[string]any) {
			first = now
			return read()
		}},
		{name: "prepare on a base", settled: []int{200}, do: func() (int, map[string]any) { return prepare(&first)() }},
		{name: "changed part", settled: []int{200}, do: put(0, 1, 1)},
		{name: "finalize on a base", points: []string{"finalize.planned"}, settled: []int{200}, do: finalize},
		{name: "delete the base", points: []string{"delete.blob_removed"}, settled: []int{200}, do: remove(&first)},
		{name: "sweep", points: []string{"tighten.stored", "tighten.recorded"}, settled: []int{200}, do: func() (int, map[string]any) {
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
	for round, point := range []string{"part.stored", "write.before_commit", "write.committed", "finalize.planned", "finalize.recorded", "delete.blob_removed", "tighten.stored", "tighten.recorded"} {
		for _, s := range c.partSteps(fmt.Sprintf("parts%d", round)) {
			crash := slices.Contains(s.points, point)
			c.t.Run(s.name+" "+point, func(t *testing.T) { c.during(t, func() { c.crash(s, point, crash) }) })
		}
	}
	c.check()
}
