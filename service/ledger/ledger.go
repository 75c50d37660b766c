// Package ledger keeps the record of every action and the money it costs. A
// record, the fee it takes and the change it describes belong to one SQL
// transaction, which the caller owns; each record carries the hash of the one
// before.
package ledger

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/store"
)

// Kinds of records.
const (
	KindCreateAccount = "create_account"
	KindFund          = "fund"
	KindTransfer      = "transfer" // detail: who receives, a space, the amount
	KindRotateKey     = "rotate_api_key"
	KindDisable       = "disable_account"
	KindEnable        = "enable_account"
	KindRegister      = "register_group"
	KindAdd           = "add_group_member"
	KindRevoke        = "revoke_group_member"
	KindRole          = "set_member_role" // detail: the member, a space, the role; follows an addition that is not of a writer
	KindJoin          = "join_group"
	KindOpenJoin      = "open_hackathon_join"
	KindCloseJoin     = "close_hackathon_join"
	KindRetention     = "set_group_retention"
	KindRecord        = "record_transaction"
	KindClaim         = "claim_token"
	KindTombstone     = "tombstone_transaction" // detail: the reason
	KindRename        = "rename_file"           // detail: the new name
	KindRotateGroup   = "rotate_group_key"      // detail: the new version; follows a revocation
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
		KindRegister: "0.64", KindAdd: "0.013", KindRevoke: "0.001", KindJoin: "0.001",
		KindRecord: "0.026", KindClaim: "0.013", ActionUpload: "0.039", ActionRetrieve: "0.013",
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
	actions := []string{KindOpenJoin, KindCloseJoin, KindRetention, KindTombstone, KindRename, KindRole}
	for action := range DefaultFees() {
		actions = append(actions, action)
	}
	slices.Sort(actions)
	return actions
}

// Record is one row of the ledger.
type Record struct {
	Seq      int64
	TxID     string
	Kind     string
	TimeNS   int64
	Account  string // who acted
	Group    string
	Ref      string
	FileHash string
	Detail   string // what else the kind needs: the member, the amount, …
	Fee      wire.Amount
	Request  string // id of the request, as in the log
	Prev     [sha256.Size]byte
	Hash     [sha256.Size]byte
}

// hash covers every field, each with its length in front. The layout is written
// down byte by byte in service/LEDGER.md and never changes.
func (r *Record) hash() [sha256.Size]byte {
	var b []byte
	field := func(s string) {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	field("svc-ledger-1")
	b = binary.BigEndian.AppendUint64(b, uint64(r.Seq))
	b = binary.BigEndian.AppendUint64(b, uint64(r.TimeNS))
	for _, s := range []string{r.TxID, r.Kind, r.Account, r.Group, r.Ref, r.FileHash, r.Detail, r.Fee.String(), r.Request} {
		field(s)
	}
	return sha256.Sum256(append(b, r.Prev[:]...))
}

// Ledger appends records. It is safe for concurrent use: transactions serialise.
type Ledger struct {
	fees       Fees
	freePerDay int
	now        func() time.Time
}

// New returns a ledger with the given prices. An account may make freePerDay
// changes a day (UTC) that cost nothing; 0 or less means any number.
func New(fees Fees, freePerDay int, now func() time.Time) *Ledger {
	return &Ledger{fees: fees, freePerDay: freePerDay, now: now}
}

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

// Append writes r as the next record and returns it complete. The caller fills
// Kind, Account and what the kind needs. Times never go back.
func (l *Ledger) Append(ctx context.Context, tx *store.Tx, r Record) (Record, error) {
	var lastTime int64
	var prev []byte
	err := tx.QueryRowContext(ctx, "SELECT seq, time_ns, hash FROM ledger ORDER BY seq DESC LIMIT 1").Scan(&r.Seq, &lastTime, &prev)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return r, fmt.Errorf("read last record: %w", err)
	}
	copy(r.Prev[:], prev)
	r.Seq++
	r.TimeNS = max(l.now().UnixNano(), lastTime+1)
	r.Request = RequestID(ctx)
	if r.TxID == "" {
		r.TxID = txID(r)
	}
	r.Hash = r.hash()
	_, err = tx.ExecContext(ctx, `INSERT INTO ledger (seq, tx_id, kind, time_ns, account, group_id, ref, file_hash, detail, fee, request, prev_hash, hash)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.Seq, r.TxID, r.Kind, r.TimeNS, r.Account, r.Group, r.Ref, r.FileHash, r.Detail, r.Fee.String(), r.Request, r.Prev[:], r.Hash[:])
	if err != nil {
		return r, fmt.Errorf("append record: %w", err)
	}
	return r, nil
}

// txID is the id the network's contract would give a file record.
func txID(r Record) string {
	text := r.Group + r.Account + r.FileHash + r.Ref + strconv.FormatInt(r.TimeNS, 10)
	if r.Kind != KindRecord {
		text = r.Kind + strconv.FormatInt(r.Seq, 10) + text
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Charge takes the price of action from the account and appends r with that fee.
// Too little is refused before anything changes, and so are too many changes that
// cost nothing.
func (l *Ledger) Charge(ctx context.Context, tx *store.Tx, action string, r Record) (Record, error) {
	r.Fee = l.Fee(action)
	if r.Fee.IsZero() {
		if err := l.countFree(ctx, tx, r.Account, action); err != nil {
			return r, err
		}
	} else {
		balance, err := Balance(ctx, tx, r.Account)
		if err != nil {
			return r, err
		}
		left, ok := balance.Sub(r.Fee)
		if !ok {
			return r, Insufficient(action, r.Fee, balance)
		}
		if err := setBalance(ctx, tx, r.Account, left); err != nil {
			return r, err
		}
	}
	return l.Append(ctx, tx, r)
}

// Insufficient is the refusal of an action the account cannot pay.
func Insufficient(action string, need, have wire.Amount) error {
	return fault.New(wire.CodeInsufficient, "Insufficient balance: %s costs %s tokens, the account has %s", action, need.Tokens(), have.Tokens())
}

// Balance returns the balance of an account.
func Balance(ctx context.Context, tx *store.Tx, account string) (wire.Amount, error) {
	var text string
	err := tx.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = ?", account).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return wire.Amount{}, fault.New(wire.CodeAccountUnknown, "account %s not found: it does not exist here", account)
	}
	if err != nil {
		return wire.Amount{}, fmt.Errorf("read balance: %w", err)
	}
	return wire.ParseAmount(text)
}

func setBalance(ctx context.Context, tx *store.Tx, account string, a wire.Amount) error {
	if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = ? WHERE id = ?", a.String(), account); err != nil {
		return fmt.Errorf("write balance: %w", err)
	}
	return nil
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
	_, err = l.Append(ctx, tx, Record{Kind: KindFund, Account: account, Detail: amount.String()})
	return sum, err
}

// Transfer moves amount from one account to another and returns what the payer
// has left. It is free; the sum of all balances stays.
func (l *Ledger) Transfer(ctx context.Context, tx *store.Tx, from, to string, amount wire.Amount) (left wire.Amount, err error) {
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
		return left, Insufficient(KindTransfer, amount, payer)
	}
	sum, ok := receiver.Add(amount)
	if !ok {
		return left, fault.New(wire.CodeValidation, "the balance would be larger than can be counted")
	}
	if err := errors.Join(setBalance(ctx, tx, from, left), setBalance(ctx, tx, to, sum)); err != nil {
		return left, err
	}
	_, err = l.Append(ctx, tx, Record{Kind: KindTransfer, Account: from, Detail: to + " " + amount.String()})
	return left, err
}

// ErrBroken is what an audit finds; the text names the first bad row.
var ErrBroken = errors.New("the ledger is broken")

// Chain is a place in the chain of records: the newest one that was checked.
// The zero value stands before the first.
type Chain struct {
	Seq  int64
	Hash [sha256.Size]byte
}

// Next reads up to limit records that follow c, checks place, link and content
// of each, passes it to f and moves c to it. It returns how many there were;
// less than limit means that the end is reached. [ErrBroken] names the first bad
// row, where c stays before it.
func (c *Chain) Next(ctx context.Context, tx *store.Tx, limit int, f func(Record) error) (n int, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT seq, tx_id, kind, time_ns, account, group_id, ref, file_hash, detail, fee, request, prev_hash, hash
		FROM ledger WHERE seq > ? ORDER BY seq LIMIT ?`, c.Seq, limit)
	if err != nil {
		return 0, fmt.Errorf("read ledger: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		r, err := scan(rows)
		if ctx.Err() != nil { // the rows may have been closed under the scan
			return n, ctx.Err()
		}
		if err != nil {
			return n, fmt.Errorf("row %d: %w: %w", c.Seq+1, ErrBroken, err)
		}
		switch {
		case r.Seq != c.Seq+1:
			return n, fmt.Errorf("row %d: %w: the next row has sequence %d", c.Seq+1, ErrBroken, r.Seq)
		case r.Prev != c.Hash:
			return n, fmt.Errorf("row %d: %w: it does not follow the row before", r.Seq, ErrBroken)
		case r.hash() != r.Hash:
			return n, fmt.Errorf("row %d: %w: its content was changed", r.Seq, ErrBroken)
		}
		if err := f(r); err != nil {
			return n, err
		}
		c.Seq, c.Hash = r.Seq, r.Hash
		n++
	}
	if err := rows.Err(); err != nil {
		return n, fmt.Errorf("read ledger: %w", err)
	}
	return n, nil
}

// Audit walks all records and returns how many there are. It fails at the first
// whose hash, link or place is wrong.
func Audit(ctx context.Context, tx *store.Tx) (int64, error) {
	var c Chain
	_, err := c.Next(ctx, tx, math.MaxInt32, func(Record) error { return nil })
	return c.Seq, err
}

func scan(rows *sql.Rows) (r Record, err error) {
	var fee string
	var prev, hash []byte
	if err := rows.Scan(&r.Seq, &r.TxID, &r.Kind, &r.TimeNS, &r.Account, &r.Group, &r.Ref, &r.FileHash, &r.Detail, &fee, &r.Request, &prev, &hash); err != nil {
		return r, errors.New("a field has the wrong type")
	}
	copy(r.Prev[:], prev)
	copy(r.Hash[:], hash)
	if r.Fee, err = wire.ParseAmount(fee); err == nil && r.Fee.String() != fee {
		err = fmt.Errorf("fee %q is not written as the ledger writes it", fee)
	}
	return r, err
}

type requestKey struct{}

// NewRequestID makes an id; the prefix tells what kind of request it is, "" for
// those of clients.
func NewRequestID(prefix string) string {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // never fails
	return prefix + hex.EncodeToString(raw[:])
}

// WithRequestID notes the id under which the log speaks of this request.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// RequestID returns the noted id, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}
