package look

import (
	"context"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/network"
)

// priceAge is how long a price is believed.
const priceAge = time.Hour

// price is the price of one look, as far as it is known.
type price struct {
	amount sdk.Amount
	until  time.Time
}

// Pay looks at the ledger once within the budget (R6).
func (s *List) Pay(ctx context.Context, look func() error) error {
	price := s.askPrice(ctx)
	if price.IsZero() {
		return look()
	}
	return s.l.cfg.Budget.Charge(price, func() (sdk.Amount, error) {
		err := look()
		switch sdk.KindOf(err) {
		case sdk.ErrTimeout, sdk.ErrCanceled, sdk.ErrCorrupt: // it was carried out, most likely
		default:
			if err != nil {
				return sdk.Amount{}, err
			}
		}
		s.l.paid.Add(1)
		return price, err
	})
}

// askPrice asks for the price of a look, unless it is known.
func (s *List) askPrice(ctx context.Context) sdk.Amount {
	if s.l.cfg.Price == nil {
		return sdk.Amount{}
	}
	s.l.mu.RLock()
	known := s.price
	s.l.mu.RUnlock()
	now := s.l.cfg.Now()
	if now.Before(known.until) {
		return known.amount
	}
	asked, cancel := network.WithPatience(ctx, Patience) // the look itself may still be answered
	defer cancel()
	amount, err := s.l.cfg.Price(asked, s.group)
	known.until = now.Add(LongestPause)
	if err == nil {
		known = price{amount, now.Add(priceAge)}
	}
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.price = known
	return known.amount
}

// Price returns the price of one look, zero where it is not known or free.
func (s *List) Price() sdk.Amount {
	s.l.mu.RLock()
	defer s.l.mu.RUnlock()
	return s.price.amount
}

// Paid returns how many looks were paid for.
func (l *Look) Paid() int64 { return l.paid.Load() }
