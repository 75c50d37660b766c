package wire_test

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
)

// manyRows is an answer as svcd writes it.
func manyRows(tb testing.TB, n int) []byte {
	backend, kind, name, size := "FastFS", "text/plain; charset=utf-8", "", int64(0)
	rows := make([]wire.TransactionRow, n)
	for i := range rows {
		stamp, rowName, rowSize := strconv.FormatInt(1_700_000_000_000_000_000+int64(i), 10), name+"entry-"+strconv.Itoa(i)+".txt", size+int64(i%7)
		rows[i] = wire.TransactionRow{TransID: "tx" + strconv.Itoa(i), GroupID: "team", UserID: "alice.svc.testnet", FileHash: strings.Repeat("ab", 32), IPFSHash: "ref-" + strconv.Itoa(i),
			Backend: &backend, Timestamp: &stamp, Filename: &rowName, OriginalSize: &rowSize, ContentType: &kind, Seq: int64(i + 1), ChangedSeq: int64(i + 1)}
	}
	rows[n/2].Deleted = &wire.Deleted{DeletedAt: "1", DeletedBy: "bob", Reason: wire.ReasonOwnerRequest}
	raw, err := json.Marshal(map[string]any{"result": rows})
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// byJSON is what encoding/json makes of an answer.
func byJSON(raw []byte) (rows []wire.TransactionRow, err error) {
	var envelope map[string]json.RawMessage
	if json.Unmarshal(raw, &envelope) == nil {
		raw = envelope["result"]
	}
	err = json.Unmarshal(raw, &rows)
	return rows, err
}

func TestParseRowsReadsWhatServicesWrite(t *testing.T) {
	for name, text := range map[string]string{
		"svcd":       string(manyRows(t, 100)),
		"bare":       `[{"trans_id":"\"t\"","group_id":"g","user_id":"u","file_hash":"00","ipfs_hash":"r","backend":null,"timestamp":null,"deleted":null}]`,
		"none":       `{"result":[]}`,
		"spaced":     " {\n \"result\" : [ { \"seq\" : 7 , \"filename\" : \"\\u0026 \u00fc \\\\\\\" \\ud800\" } , { } ] } \n",
		"extreme":    `[{"seq":-0,"changed_seq":999999999999999999,"original_size":-5,"filename":""},{"filename":"` + "\xff" + `","seq":null}]`,
		"records":    `{"result":[{"kind":"register_group","detail":"","fee":"0","request":"r","prev_hash":"p","hash":"h","trans_id":"t"}]}`,
		"chain":      `{"result":[{"chain":"group:g","number":7,"tags":["size","14","type","text/plain"]},{"chain":"group:g","number":8,"tags":["size","15"]},{"tags":[]},{"tags":null}]}`,
		"pages":      `{"result":[{"number":256,"page":{"number":256,"hash":"ab","timestamp":"1","signature":"cw=="}},{"number":257,"page":null}]}`,
		"attributes": `{"result":[{"attributes":"{\"mtime\":\"5\"}","tags":["attributes","{\"mtime\":\"5\"}","b","\\\"","c","\"ü\"","d","\"\\"]},{"attributes":"{\"mtime\":\"5\"}"},{"attributes":null},{}]}`,
	} {
		got, _, ok := wire.ParseRows([]byte(text), 100, 100)
		want, err := byJSON([]byte(text))
		if !ok || err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %+v, want %+v, %v", name, ok, got, want, err)
		}
	}
}

func TestParseRowsLeavesTheRestToEncodingJSON(t *testing.T) {
	for _, text := range []string{"", "null", `{"result":null}`, `{"result":[],"error":"x"}`, `{"error":"x"}`, `[{}`, `[{}]]`, `[{}] x`, `[{"seq":1.0}]`, `[{"seq":1e3}]`, `[{"seq":01}]`,
		`[{"seq":"1"}]`, `[{"seq":-}]`, `[{"seq":9999999999999999999}]`, `[{"Seq":1}]`, `[{"seq":1,"seq":2}]`, `[{"new_field":1}]`, `[{"filename":7}]`, `[{"filename":"a` + "\x01" + `"null}]`,
		`[{"filename":"\x"}]`, `[{"deleted":[]}]`, `[{"deleted":{"who":"x"}}]`, `[{},]`, `[{"seq":1,}]`, `{"result":[{}]`, `[null]`, `[{"seq":1 2}]`, `[{"filename":"a\"}]`,
		`[{"tags":["a",null]}]`, `[{"tags":["a" "b"]}]`, `[{"tags":[,"a"]}]`, `[{"tags":["a"`, `[{"tags":[1]}]`} {
		if rows, _, ok := wire.ParseRows([]byte(text), 100, 100); ok {
			t.Errorf("%q: %+v", text, rows)
		}
	}
	for free, want := range []bool{false, true} {
		if _, _, ok := wire.ParseRows([]byte("[{}]"), free, 100); ok != want {
			t.Errorf("one short row of %d allowed: %v", free, ok)
		}
	}
}

func TestParseRowsReadsTheProof(t *testing.T) {
	rows, proof, ok := wire.ParseRows([]byte(`{"result":[{"number":3}], "proof" : {"checkpoint":"c","head":{"number":3,"hash":"ab"}} }`+"\n"), 100, 100)
	if !ok || len(rows) != 1 || rows[0].Number != 3 || proof.Checkpoint != "c" || proof.Head.Number != 3 || proof.Chain != nil {
		t.Errorf("%v, %+v, %+v", ok, rows, proof)
	}
	for _, text := range []string{`[{}],"proof":{}`, `{"result":[{}],"proof":{}`, `{"result":[{}],"proof":{},"result":[]}`, `{"result":[{}],"proof":{}} {}`, `{"proof":{},"result":[]}`} {
		if _, _, ok := wire.ParseRows([]byte(text), 100, 100); ok {
			t.Errorf("%q was accepted", text)
		}
	}
}

// namesAnswer is an answer of get_names as svcd writes it.
func namesAnswer(tb testing.TB, n int) []byte {
	rows := make([]wire.TransactionRow, n)
	for i := range rows {
		stamp, text := strconv.FormatInt(1_700_000_000_000_000_000+int64(i), 10), strconv.Itoa(i)
		rows[i] = wire.TransactionRow{TransID: "tx" + text, UserID: "alice.svc.testnet", IPFSHash: "ref-" + text, Timestamp: &stamp,
			Seq: int64(i + 1), ChangedSeq: int64(i + 1), Kind: "record", Detail: "folder/entry-" + text, Chain: "group:team", Number: int64(i + 1),
			Tags: []string{"size", text, "type", "text/plain"}, Opening: strings.Repeat("QUJD", 20), PrevHash: strings.Repeat("ab", 32), Place: int64(i + 3)}
	}
	raw, err := json.Marshal(map[string]any{"result": wire.LivingResult{Rows: rows, Seq: int64(n), Names: []byte(strings.Repeat("proof", n)),
		Proof: &wire.ChainProof{Checkpoint: "c", Names: &wire.SignedNames{Root: "ab"}}}})
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// namesByJSON is what encoding/json makes of an answer.
func namesByJSON(raw []byte) (answer wire.LivingResult, err error) {
	var whole struct{ Result *wire.LivingResult }
	whole.Result = &answer
	err = json.Unmarshal(raw, &whole)
	return answer, err
}

func TestParseNamesReadsWhatServicesWrite(t *testing.T) {
	for _, raw := range []string{string(namesAnswer(t, 100)), `{ "result" : {"seq":-1, "rows":[ {"place":-1} ],"names":"" } } `, `{"result":{}}`} {
		got, ok := wire.ParseNames([]byte(raw), 100, 100)
		want, err := namesByJSON([]byte(raw))
		if !ok || err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v, %+v, want %+v, %v", ok, got, want, err)
		}
	}
	for _, text := range []string{"", "{}x", `{"result":[]}`, `{"result":null}`, `{"result":{"seq":1,"seq":1}}`, `{"result":{"names":"="}}`, `{"result":{}}}`, `{"result":{}},`,
		`{"result":{},"error":"x"}`, `{"result":{"proof":null}}`, `{"result":{"proof":{}`, `{"result":{"proof":[]}}`, `{"result":{"rows":[{}]`, `{"result":{"new_field":1}}`, `{"result":{"names":"\u0041"}}`} {
		if got, ok := wire.ParseNames([]byte(text), 100, 100); ok {
			t.Errorf("%q: %+v", text, got)
		}
	}
	if _, ok := wire.ParseNames([]byte(`{"result":{"rows":[{}]}}`), 0, 100); ok {
		t.Error("one short row of none allowed is read")
	}
}

// FuzzNames is [FuzzRows] for answers of get_names.
func FuzzNames(f *testing.F) {
	f.Add(namesAnswer(f, 3))
	f.Add([]byte(`{"result":{"proof":{"head":{"number":3}},"names":"QUJD","rows":[{"place":-1}],"seq":7}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, ok := wire.ParseNames(raw, 100, 100)
		if !ok {
			return
		}
		if want, err := namesByJSON(raw); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: read %+v, encoding/json %+v, %v", raw, got, want, err)
		}
	})
}

func BenchmarkNames(b *testing.B) {
	raw := namesAnswer(b, 1000)
	b.Run("ParseNames", func(b *testing.B) {
		for b.Loop() {
			if _, ok := wire.ParseNames(raw, 100, 100); !ok {
				b.Fatal("it is left to encoding/json")
			}
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		for b.Loop() {
			if _, err := namesByJSON(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// FuzzRows: what the fast parser takes, encoding/json takes as well, and reads the
// same.
func FuzzRows(f *testing.F) {
	f.Add(manyRows(f, 3))
	for _, seed := range []string{`{"result":[{"trans_id":"\"t\"","seq":5,"deleted":{"deleted_at":"1","deleted_by":"b","reason":"r"},"page":{"number":7,"hash":"ab","timestamp":"1","signature":"cw=="}},{"filename":"\u00e9\ud83d\ude00","original_size":0}]}`,
		`[{"backend":"FastFS"},{"backend":"FastFS","timestamp":"1"},{"backend":null}]`, ` [ { } ] `, `[{"kind":"k","detail":"d","fee":"1"}]`,
		`[{"attributes":"{\"mtime\":\"5\"}","tags":["attributes","{\"mtime\":\"5\"}","b","\\\""]}]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, _, ok := wire.ParseRows(raw, 100, 100)
		if !ok {
			return
		}
		if want, err := byJSON(raw); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: read %+v, encoding/json %+v, %v", raw, got, want, err)
		}
	})
}

func BenchmarkRows(b *testing.B) {
	raw := manyRows(b, 5000)
	b.Run("ParseRows", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			if _, _, ok := wire.ParseRows(raw, 100, 100); !ok {
				b.Fatal("not read")
			}
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			if _, err := byJSON(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}
