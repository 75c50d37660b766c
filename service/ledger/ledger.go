// Package ledger keeps the record of every action and the money it costs. A record, the
// fee it takes and the change it describes belong to one SQL transaction, which the
// caller owns. Each record carries the hash of the one before it in its chain. Package
// chain defines the hashed text.
package ledger

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/store"
)

// Actions that are priced but are not kinds of records.
const (
	ActionUpload   = "upload"   // record_transaction and claim_token together
	ActionRetrieve = "retrieve" // claim_token
)

// Fees are the prices of actions in yocto.
type Fees map[string]wire.Amount

// DefaultFees are the costs of the specification, section 8.
func DefaultFees() Fees {
	fees := Fees{}
	for action, tokens := range map[string]string{
		chain.KindRegister: "0.64", chain.KindAdd: "0.013", chain.KindRevoke: "0.001", chain.KindJoin: "0.001",
		chain.KindRecord: "0.026", chain.KindClaim: "0.013", ActionUpload: "0.039", ActionRetrieve: "0.013",
	} {
		fee, err := wire.ParseTokens(tokens)
		if err != nil {
			panic("ledger: default fee: " + err.Error()) // a constant of this file
		}
		fees[action] = fee
	}
	return fees
}

// Actions are all that can be priced; those without a default price are free.
func Actions() []string {
	actions := []string{chain.KindOpenJoin, chain.KindCloseJoin, chain.KindRetention, chain.KindTombstone,
		chain.KindRename, chain.KindRole, chain.KindPending, chain.KindKeep,
		chain.KindRemove, chain.KindRestore, chain.KindTrash, chain.KindAttributes, chain.KindVersions,
		chain.KindFormat, chain.KindAppends, chain.KindKeys,
		chain.KindOffer, chain.KindAccept, chain.KindDeleteGroup}
	for action := range DefaultFees() {
		actions = append(actions, action)
	}
	slices.Sort(actions)
	return actions
}

// WithTags returns tags and those of more that have a value, in the order in which
// they are hashed. No name may come twice.
func WithTags(tags []chain.Tag, more ...chain.Tag) []chain.Tag {
	all := slices.Clip(tags)
	for _, tag := range more {
		if tag.Value != "" {
			all = append(all, tag)
		}
	}
	slices.SortFunc(all, func(a, b chain.Tag) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// writeTags writes tags as the ledger keeps them; readTags accepts nothing else.
func writeTags(tags []chain.Tag) (string, error) {
	if len(tags) == 0 {
		return "", nil
	}
	raw, err := json.Marshal(chain.FlattenTags(tags))
	return string(raw), err
}

// splitTags reads tags as they are kept into names and values in turns.
func splitTags(text string) (flat []string, err error) {
	if text == "" {
		return nil, nil
	}
	// Without escapes but those of quotes, which attributes have, every quote is a border. A
	// listing reads a hundred thousand.
	if inner, ok := strings.CutPrefix(text, `["`); ok && strings.HasSuffix(inner, `"]`) {
		inner = strings.TrimSuffix(inner, `"]`)
		escapes := strings.Count(inner, `\`)
		if escapes == 0 {
			return strings.Split(inner, `","`), nil
		}
		if escapes == strings.Count(inner, `\"`) && !strings.Contains(inner, `\","`) {
			flat = strings.Split(inner, `","`)
			for i := range flat {
				flat[i] = strings.ReplaceAll(flat[i], `\"`, `"`)
			}
			return flat, nil
		}
	}
	if err := json.Unmarshal([]byte(text), &flat); err != nil {
		return nil, errors.New("its tags are not written as the ledger writes them")
	}
	return flat, nil
}

func readTags(text string) ([]chain.Tag, error) {
	flat, err := splitTags(text)
	if err != nil {
		return nil, err
	}
	tags, err := chain.ParseTags(flat)
	if err != nil {
		return nil, err
	}
	if again, err := writeTags(tags); err != nil || again != text {
		return nil, errors.New("its tags are not written as the ledger writes them")
	}
	return tags, nil
}

// Ledger appends records. It is safe for concurrent use: writes of one chain happen one after the other.
type Ledger struct {
	fees   Fees
	bounds Bounds
	now    func() time.Time
}

// New returns a ledger with the given prices, and bounds of what costs nothing.
func New(fees Fees, bounds Bounds, now func() time.Time) *Ledger {
	return &Ledger{fees: fees, bounds: bounds, now: now}
}

// Now is the time of the service. Records, expiry and waiting all use it.
func (l *Ledger) Now() time.Time { return l.now() }

// Fee returns the price of an action, zero for one it does not know.
func (l *Ledger) Fee(action string) wire.Amount { return l.fees[action] }

// Fees returns all prices, as decimal yocto.
func (l *Ledger) Fees() map[string]string {
	out := make(map[string]string, len(l.fees))
	for action, fee := range l.fees {
		out[action] = fee.String()
	}
	return out
}

// AskEnd is what [Ledger.Append] asks about a chain. On PostgreSQL, where it may be asked ahead, each answer has a
// sequence of its own.
func AskEnd(chain string) store.Ask {
	return store.Ask{Query: `SELECT seq, newest_records.time_ns, chains.number, chains.hash, chains.time_ns
		FROM newest_records LEFT JOIN chains ON chains.chain = ? ORDER BY seq DESC LIMIT 1`, Args: []any{chain}}
}

// Late refuses a record while the newest ones lack their places for too long, see [Bounds].
func (l *Ledger) Late() error {
	if l.bounds.Late == nil {
		return nil
	}
	return l.bounds.Late()
}

// Append writes r as the next record of the ledger and of its chain, which the write names, and returns it
// complete. The caller fills Kind, Account and the fields of the kind. In a chain times never go
// back, and over the whole ledger only among records that are being written at the same time.
func (l *Ledger) Append(ctx context.Context, tx *store.Tx, record chain.Record) (chain.Row, error) {
	r := chain.Row{Record: record}
	r.Chain = chain.Of(r.Kind, r.Account, r.Group)
	if err := requireNamed(tx, r.Chain); err != nil {
		return r, err
	}
	if err := l.Late(); err != nil {
		return r, err
	}
	var lastTime int64
	var head []byte
	var number, chainTime sql.NullInt64
	err := tx.Ask(ctx, AskEnd(r.Chain)).Scan(&r.Seq, &lastTime, &number, &head, &chainTime)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return r, fmt.Errorf("read last record: %w", err)
	}
	copy(r.Prev[:], head)
	r.Number = number.Int64 + 1
	r.Seq++
	r.TimeNS = max(l.now().UnixNano(), lastTime+1, chainTime.Int64+1)
	r.Request = RequestID(ctx)
	if r.Tx == "" {
		r.Tx = txID(&r.Record)
	}
	r.Fee = cmp.Or(r.Fee, wire.Amount{}.String())
	if r.LetsIn() {
		if err := vouch(ctx, &r.Record); err != nil {
			return r, fmt.Errorf("append record: %w", err)
		}
	}
	r.Hash = r.Sum()
	tags, err := writeTags(r.Tags)
	if err != nil {
		return r, fmt.Errorf("append record: %w", err)
	}
	err = tx.Do(ctx, "append record", `INSERT INTO ledger (seq, tx_id, kind, time_ns, account, group_id, ref, file_hash,
		detail, fee, request, prev_hash, hash,
		chain, number, tags) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.Seq, r.Tx, r.Kind, r.TimeNS, r.Account, r.Group, r.Ref, r.FileHash, r.Detail, r.Fee, r.Request, r.Prev[:],
		r.Hash[:],
		r.Chain, r.Number, tags)
	if err != nil {
		return r, err
	}
	return r, tx.Do(ctx, "move the chain", `INSERT INTO chains (chain, number, hash, time_ns) VALUES (?, ?, ?, ?)
		ON CONFLICT (chain) DO UPDATE SET number = excluded.number, hash = excluded.hash, time_ns = excluded.time_ns`,
		r.Chain, r.Number, r.Hash[:], r.TimeNS)
}

// txID is the id the network's contract would give a file record.
func txID(r *chain.Record) string {
	text := r.Group + r.Account + r.FileHash + r.Ref + strconv.FormatInt(r.TimeNS, 10)
	if r.Kind != chain.KindRecord {
		text = r.Kind + r.Chain + strconv.FormatInt(r.Number, 10) + text
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Charge takes the price of action from the account and appends r with that fee. It
// refuses a balance that is too low, and too many free changes, before anything changes.
func (l *Ledger) Charge(ctx context.Context, tx *store.Tx, action string, r chain.Record) (row chain.Row, err error) {
	return l.ChargeTimes(ctx, tx, action, 1, r)
}

// ChargeTimes is [Ledger.Charge] for n actions with one record. Its fee is n times the
// price; where that is nothing, see [Ledger.Free]. An error means that the transaction must
// not commit.
func (l *Ledger) ChargeTimes(ctx context.Context, tx *store.Tx, action string, n int64,
	r chain.Record) (row chain.Row, err error) {
	fee, ok := times(l.Fee(action), n)
	if !ok {
		return row, fault.New(wire.CodeInsufficient,
			"Insufficient balance: %d times %s costs more than can be counted", n, action)
	}
	r.Fee = fee.String()
	if fee.IsZero() {
		return l.Free(ctx, tx, action, n, r)
	}
	balance, err := Balance(ctx, tx, r.Account)
	if err != nil {
		return row, err
	}
	left, ok := balance.Sub(fee)
	if !ok {
		return row, Insufficient(action, fee, balance)
	}
	if err := setBalance(ctx, tx, r.Account, left); err != nil {
		return row, err
	}
	return l.Append(ctx, tx, r)
}

// Insufficient is the refusal of an action the account cannot pay.
func Insufficient(action string, need, have wire.Amount) error {
	return fault.New(wire.CodeInsufficient, "Insufficient balance: %s costs %s tokens, the account has %s", action,
		need.Tokens(), have.Tokens())
}

// AskBalance is what [Balance] asks.
func AskBalance(account string) store.Ask {
	return store.Ask{Query: "SELECT balance FROM accounts WHERE id = ?", Args: []any{account}}
}

// Balance returns the balance of an account.
func Balance(ctx context.Context, tx *store.Tx, account string) (wire.Amount, error) {
	var text string
	err := tx.Ask(ctx, AskBalance(account)).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return wire.Amount{}, fault.New(wire.CodeAccountUnknown, "account %s not found: it does not exist here",
			account)
	}
	if err != nil {
		return wire.Amount{}, fmt.Errorf("read balance: %w", err)
	}
	return wire.ParseAmount(text)
}

func setBalance(ctx context.Context, tx *store.Tx, account string, a wire.Amount) error {
	if err := requireNamed(tx, chain.OfAccount(account)); err != nil {
		return err
	}
	return tx.Do(ctx, "write balance", "UPDATE accounts SET balance = ? WHERE id = ?", a.String(), account)
}

// Fund adds amount to an account and returns the new balance.
func (l *Ledger) Fund(ctx context.Context, tx *store.Tx, account string, amount wire.Amount) (wire.Amount, error) {
	balance, err := Balance(ctx, tx, account)
	if err != nil {
		return wire.Amount{}, err
	}
	sum, ok := balance.Add(amount)
	if !ok {
		return wire.Amount{}, fault.New(wire.CodeValidation, "the balance would be larger than can be counted")
	}
	if err := setBalance(ctx, tx, account, sum); err != nil {
		return wire.Amount{}, err
	}
	_, err = l.Append(ctx, tx, chain.Record{Kind: chain.KindFund, Account: account, Detail: amount.String()})
	return sum, err
}

// Transfer moves amount from one account to another and returns the rest of the payer.
// It is free; the sum of all balances stays the same.
func (l *Ledger) Transfer(ctx context.Context, tx *store.Tx, from, to string,
	amount wire.Amount) (left wire.Amount, err error) {
	if from == to || amount.IsZero() {
		return left, fault.New(wire.CodeValidation, "a transfer needs two accounts and an amount above zero")
	}
	payer, err := Balance(ctx, tx, from)
	if err != nil {
		return left, err
	}
	receiver, err := Balance(ctx, tx, to)
	if err != nil {
		return left, err
	}
	left, ok := payer.Sub(amount)
	if !ok {
		return left, Insufficient(chain.KindTransfer, amount, payer)
	}
	sum, ok := receiver.Add(amount)
	if !ok {
		return left, fault.New(wire.CodeValidation, "the balance would be larger than can be counted")
	}
	if err := errors.Join(setBalance(ctx, tx, from, left), setBalance(ctx, tx, to, sum)); err != nil {
		return left, err
	}
	_, err = l.Append(ctx, tx, chain.Record{Kind: chain.KindTransfer, Account: from, Detail: to + " " +
		amount.String()})
	return left, err
}

type requestKey struct{}

// request is what the records of a request say of it.
type request struct {
	id    string
	vouch atomic.Pointer[Voucher]
}

// Voucher has the vault vouch for the records of a request that let somebody in, see [chain.Record.LetsIn].
type Voucher struct {
	Vouch func(context.Context, chain.Record) (word string, err error)
	// InviteID is the id that the vault wants of the invite that the request asks for; "" = any.
	InviteID string
}

// NewRequestID makes an id; the prefix shows the kind of request, "" for requests of
// clients.
func NewRequestID(prefix string) string {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // never fails
	return prefix + hex.EncodeToString(raw[:])
}

// WithRequestID sets the id of a request for log and ledger.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, &request{id: id})
}

func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// VouchBy has the records of a request be vouched for: their account is known now. Outside of a request VouchBy does
// nothing.
func VouchBy(ctx context.Context, v Voucher) {
	if r := requestOf(ctx); r != nil {
		r.vouch.Store(&v)
	}
}

// voucherOf returns the voucher of a request, nil for none.
func voucherOf(ctx context.Context) *Voucher {
	if r := requestOf(ctx); r != nil {
		return r.vouch.Load()
	}
	return nil
}

// InviteID returns the id that an invite by this request has to have; "" = any.
func InviteID(ctx context.Context) string {
	if v := voucherOf(ctx); v != nil {
		return v.InviteID
	}
	return ""
}

// vouch has the vault vouch for a record.
func vouch(ctx context.Context, r *chain.Record) error {
	v := voucherOf(ctx)
	if v == nil {
		return nil
	}
	word, err := v.Vouch(ctx, *r)
	if err == nil {
		r.Tags = WithTags(r.Tags, chain.Tag{Name: chain.TagVouched, Value: word})
	}
	return err
}

// RequestID returns the id of a request, or "".
func RequestID(ctx context.Context) string {
	if r := requestOf(ctx); r != nil {
		return r.id
	}
	return ""
}
