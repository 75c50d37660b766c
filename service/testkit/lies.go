package testkit

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Subject is what a lie is about: the operation that a client is tried with.
type Subject string

// The subjects.
const (
	OnRetrieve Subject = "retrieve" // prepare_retrieve and the data behind it
	OnUpload   Subject = "upload"   // prepare_upload and finalize_upload
	OnList     Subject = "list"     // get_group_transactions of a service that proves nothing
	OnChain    Subject = "chain"    // get_group_transactions of a service that proves what it lists
	OnToken    Subject = "token"    // the session token
	OnWatch    Subject = "watch"    // what happened
	OnHistory  Subject = "history"  // the ledger, consistently: all that the service says fits together
	OnBlocks   Subject = "blocks"   // a file of format version 2, consistently
	OnReceipt  Subject = "receipt"  // what proves an upload
	OnBatch    Subject = "batch"    // four uploads in one request
	OnFolder   Subject = "folder"   // what proves that a folder was renamed, made or removed
	OnChange   Subject = "change"   // what proves that a file was changed
	OnVault    Subject = "vault"    // the key that uploads are sealed to
	OnPart     Subject = "part"     // answers for one name or one folder
	OnNames    Subject = "names"    // the root of names, which who reads the whole chain checks
)

// Lie is one lie of a service that is honest but for it: a row of the table.
type Lie struct {
	Name string
	// Threat is the row of SECURITY.md that it belongs to: what a client is tried for.
	Threat int
	On     Subject
	Large  bool // it is about a large file, which travels beside the JSON, or has more blocks than a tile

	// Path is where the lie is told, and Mutate stands there between the client and the honest service.
	Path   string
	Mutate Mutation
	tell   func(*World) // instead, what one path cannot tell

	// Want is the kind of error a client must end with; Survives means that the client must succeed all
	// the same, because the fault passes. A watch that has begun ends with [sdk.ErrCorrupt] when its channel
	// is closed, whatever the reason, and succeeds when it tells what happened and can be ended.
	Want     sdk.Kind
	Survives bool
	// Proven is a part of the error message: what the client proved false.
	Proven string
	// Unseen tells that a client which remembers nothing cannot find it out: it is a history of which
	// nothing was seen before. A witness finds those ([sdk.Config].Witness).
	Unseen bool
	// Unconfirmed is how many of four uploads in one request must fail, where the lie is about those.
	Unconfirmed int
	// Uploader tells that the uploader lied, and the service told what was recorded: the error is
	// [sdk.ErrWrongContent].
	Uploader bool
}

// Mutation stands between a client and the honest service.
type Mutation func(w *World, honest http.Handler) http.Handler

// Lies returns the table.
func Lies() []Lie {
	return slices.Concat(blobLies(), keyLies(), metadataLies(), transportLies(), rawLies(), uploadLies(), listLies(),
		chainLies(), tokenLies(), watchLies(),
		historyLies(), dataLies(), answerLies(), tileLies(), uploaderLies(), receiptLies(), batchLies(), folderLies(),
		changeLies(), vaultLies(), nameLies(), partLies())
}

// like completes rows with what they have in common.
func like(common Lie, rows ...Lie) []Lie {
	for i := range rows {
		l := common
		l.Name, l.Proven, l.tell, l.Unseen = rows[i].Name, rows[i].Proven, rows[i].tell, rows[i].Unseen
		if rows[i].Mutate != nil {
			l.Mutate = rows[i].Mutate
		}
		if rows[i].Path != "" {
			l.Path = rows[i].Path
		}
		if rows[i].Threat != 0 {
			l.Threat = rows[i].Threat
		}
		l.Large = l.Large || rows[i].Large
		rows[i] = l
	}
	return rows
}

type told map[string]Mutation // by the name of the lie

// lies are rows that differ in what is told.
func lies(common Lie, what told) (list []Lie) {
	for name, m := range what {
		list = append(list, Lie{Name: name, Mutate: m})
	}
	return like(common, list...)
}

// World is a service that is honest until [World.Tell], with what lies are about.
type World struct {
	*Server
	Alice, Bob Account
	Group      sdk.GroupID
	Entry      sdk.Entry // of the file, as an honest ledger has it; a lie of its uploader changes it
	Content    []byte    // of the file

	listed sdk.Entry
	paths  []string // where lies are told
	honest *Log     // while another is shown; nil = none was
	other  *httptest.Server
	asked  atomic.Int32 // requests at another host
	ended  chan struct{}

	key       *format.Key
	sealed    *sealedFile
	before    *sealedFile // an earlier version of the name, of the same size
	beforeRef sdk.Ref
}

// NewWorld starts a service for lies about a subject.
func NewWorld(tb testing.TB, on Subject, large bool) *World {
	tb.Helper()
	dialect := Ours
	if !large && slices.Contains([]Subject{OnRetrieve, OnUpload, OnList, OnToken}, on) {
		dialect = Hosted
	}
	w := &World{Server: Start(tb, dialect), Group: "board", ended: make(chan struct{})}
	w.Alice, w.Bob = w.Account("alice", "1000"), w.Account("bob", "100")
	w.other = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { w.asked.Add(1) }))
	tb.Cleanup(func() { close(w.ended); w.other.Close() })
	g := w.Client(tb, w.Alice).Group(w.Group)
	_, err := g.Register(tb.Context())
	w.must(err)
	if on == OnVault {
		w.NextEpoch(false)
		w.NextEpoch(false)
	}
	switch on {
	case OnHistory, OnNames:
		w.addHistory(tb, g)
	case OnPart:
		w.addPart(tb, g)
	case OnBlocks:
		w.addVersions(tb, g, large)
	default:
		w.Content = bytes.Repeat([]byte("the plaintext that must never show in an error. "), 40)
		if large {
			w.Content = bytes.Repeat(w.Content, 100)
		}
		w.Entry = sdk.Entry{Group: g.ID, Ref: w.put(tb, g, "secret.txt", w.Content), Hash: sdk.ComputeHash(w.Content),
			Size: sdk.SizeUnknown, Uploader: w.Alice.ID}
		w.put(tb, g, "other.txt", []byte("something else"))
	}
	w.listed = w.Entry
	return w
}

func (w *World) put(tb testing.TB, g sdk.Group, name string, content []byte) sdk.Ref {
	tb.Helper()
	r, err := g.Put(tb.Context(), name, bytes.NewReader(content))
	w.must(err)
	return r.Ref
}

// Tell begins a lie.
func (w *World) Tell(l Lie) {
	if l.tell != nil {
		l.tell(w)
		return
	}
	w.at(l.Path, l.Mutate)
}

func (w *World) at(path string, m Mutation) {
	w.paths = append(w.paths, path)
	w.Disturb(path, func(next http.Handler) http.Handler { return m(w, next) })
}

// show makes the service show another ledger.
func (w *World) show(l *Log) {
	if w.honest == nil {
		w.honest = w.Log()
	}
	w.Show(l)
}

// Repent ends the lie.
func (w *World) Repent() {
	for _, path := range w.paths {
		w.Disturb(path, nil)
	}
	w.paths, w.Entry = nil, w.listed
	if w.honest != nil {
		w.Show(w.honest)
	}
}

// AskedElsewhere counts requests the client was led to make at another host.
func (w *World) AskedElsewhere() int { return int(w.asked.Load()) }

// changed lets the honest service answer and changes the result, or the whole answer where that is no object.
func changed(change func(w *World, result map[string]any)) Mutation {
	return func(w *World, next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			asked := bodyOf(r)
			honest := record(next, r)
			answer, ok := parsed(honest.Body.Bytes())
			if honest.Code != http.StatusOK || !ok {
				forward(rw, honest)
				return
			}
			result, isObject := answer["result"].(map[string]any)
			if !isObject {
				result = answer
			}
			change(w, result)
			key, _ := result["key"].(string)
			sealed := w.SealedKey(r, asked, key)
			if sealed != nil && r.URL.Path == retrievePath && result[inClear] == nil {
				result["key"], result["sealed_key"] = "", encode64(sealed)
			}
			writeJSON(rw, http.StatusOK, answer)
		})
	}
}

// inClear has the key of an answer come in the clear, although the session is sealed.
const inClear = "in_clear"

// parsed reads a JSON object, numbers as they are written.
func parsed(raw []byte) (answer map[string]any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return answer, d.Decode(&answer) == nil
}

// said answers a fixed body.
func said(status int, body string) Mutation {
	return answers(func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(status)
		_, _ = rw.Write([]byte(body))
	})
}

// answers is a lie that asks the honest service nothing.
func answers(h http.HandlerFunc) Mutation {
	return func(*World, http.Handler) http.Handler { return h }
}

const (
	retrievePath = wire.PathTools + wire.OpPrepareRetrieve
	listPath     = wire.PathTools + wire.OpGetGroupTransactions
)
