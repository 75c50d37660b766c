package agent

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names"
)

const (
	maxPlans  = 8 // that wait; each may hold maxPut
	planLives = 5 * time.Minute
	confirmID = "confirm" // of the question to the user
)

// change is one planned change. It happens once, or not at all.
type change struct {
	text  string     // a sentence for the user
	price sdk.Amount // of all of it
	bytes int64      // of content
	do    func(ctx context.Context) (doc any, fee sdk.Amount, err error)
}

// plan is a change that waits for an answer.
type plan struct {
	change
	token string
	call  [sha256.Size]byte // tool and arguments
	asked bool              // the user is asked by the client: the agent's confirm is no answer
	until time.Time
}

// plans are those that wait, oldest first. It is safe for concurrent use.
type plans struct {
	mu   sync.Mutex
	list []*plan
}

func (ps *plans) add(p *plan) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.list = append(ps.list, p)
	ps.list = ps.list[max(len(ps.list)-maxPlans, 0):]
}

// take returns the plan of a token, which nobody can take again.
func (ps *plans) take(token string, asked bool, now time.Time) (*plan, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.list = slices.DeleteFunc(ps.list, func(p *plan) bool { return !now.Before(p.until) })
	i := slices.IndexFunc(ps.list, func(p *plan) bool { return p.token == token && p.asked == asked })
	if i < 0 {
		return nil, refuse("call the tool of the change again for a new plan",
			"no plan waits for this token: it was used, is older than %s, or never was", planLives)
	}
	p := ps.list[i]
	ps.list = slices.Delete(ps.list, i, i+1)
	return p, nil
}

// planDoc is the answer to a client that cannot ask its user.
type planDoc struct {
	Plan   string    `json:"plan"`
	Tokens string    `json:"tokens"`
	Token  string    `json:"confirm_token"`
	Until  time.Time `json:"until"`
	Note   string    `json:"note"`
}

const planNote = "Nothing has happened yet. Show the plan to the user; when they agree, call confirm with this " +
	"token, once."

// addChange adds a tool that changes something. prepare checks what can be checked for free,
// and says what would be done.
func addChange[In any](s *server, h *mcp.Server, name, title, text string, e effect,
	prepare func(ctx context.Context, in In) (change, error)) {
	e.open = true
	mcp.AddTool(h, &mcp.Tool{Name: name, Description: text +
		" Asks the user first, through the client or with a plan to confirm.", Annotations: e.annotations(title)},
		func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
			raw, err := json.Marshal(in)
			if err != nil {
				return s.failure(err), nil, nil
			}
			call := sha256.Sum256(append([]byte(name+"\n"), raw...))
			if answer, is := req.Params.InputResponses[confirmID].(*mcp.ElicitResult); is {
				return s.answered(ctx, req.Params.RequestState, call, answer), nil, nil
			}
			c, err := prepare(ctx, in)
			if err == nil {
				err = s.purse.check(c.price)
			}
			if err == nil {
				err = s.written.check(c.bytes)
			}
			if err != nil {
				return s.failure(err), nil, nil
			}
			p := &plan{change: c, token: rand.Text(), call: call, asked: canAsk(req), until: s.Now().Add(planLives)}
			s.plans.add(p)
			if p.asked {
				question := &mcp.ElicitParams{Mode: "form", Message: names.Escape(p.question(), ""),
					RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)}
				return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{confirmID: question},
					RequestState: p.token}, nil, nil
			}
			return s.answer(planDoc{names.Escape(p.text, ""), p.price.Tokens(), p.token,
				p.until.UTC().Truncate(time.Second), planNote}, nil, true), nil, nil
		})
}

func (p *plan) question() string {
	return "The agent wants to: " + p.text + ". It costs " + p.price.Tokens() + " tokens. Shall it?"
}

// canAsk reports whether the client shows forms to its user.
func canAsk(req *mcp.CallToolRequest) bool {
	params := req.Session.InitializeParams()
	if params == nil || params.Capabilities == nil || params.Capabilities.Elicitation == nil {
		return false
	}
	form := params.Capabilities.Elicitation
	return form.Form != nil || form.URL == nil // neither: from before there were two kinds
}

// answered does what the user was asked about, if they agreed to this very call.
func (s *server) answered(ctx context.Context, token string, call [sha256.Size]byte,
	answer *mcp.ElicitResult) *mcp.CallToolResult {
	p, err := s.plans.take(token, true, s.Now())
	switch {
	case err != nil:
	case p.call != call:
		err = refuse("call the tool again", "the user was asked about another change: nothing was done")
	case answer.Action != "accept":
		err = refuse("ask the user what to do instead", "the user did not agree: nothing was done")
	default:
		return s.perform(ctx, p)
	}
	return s.failure(err)
}

type confirmArgs struct {
	Token string `json:"token" jsonschema:"confirm_token of the plan"`
}

func (s *server) addConfirm(h *mcp.Server) {
	mcp.AddTool(h, &mcp.Tool{Name: "confirm",
		Annotations: effect{destroys: true, open: true}.annotations("Carry out a plan"),
		Description: "Carry out one plan that another tool answered with, once, within five minutes. Call it only " +
			"after the user agreed to that plan."},
		func(ctx context.Context, _ *mcp.CallToolRequest, in confirmArgs) (*mcp.CallToolResult, any, error) {
			p, err := s.plans.take(in.Token, false, s.Now())
			if err != nil {
				return s.failure(err), nil, nil
			}
			return s.perform(ctx, p), nil, nil
		})
}

// perform makes the change, within the budgets.
func (s *server) perform(ctx context.Context, p *plan) *mcp.CallToolResult {
	if err := s.written.take(p.bytes); err != nil {
		return s.failure(err)
	}
	var doc any
	err := s.purse.pay(p.price, func() (fee sdk.Amount, err error) {
		doc, fee, err = p.do(ctx)
		return fee, err
	})
	if err != nil && uncharged(err) {
		s.written.giveBack(p.bytes)
	}
	return s.answer(doc, err, true)
}
