package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
)

// outboxSocket is the socket of the commands about an outbox, in its folder: the mount that has the lock serves it.
const outboxSocket = "control"

type outboxRequest struct {
	Op    string      `json:"op"` // list, retry, move, discard
	ID    string      `json:"id,omitempty"`
	Group sdk.GroupID `json:"group,omitempty"`
}

type outboxAnswer struct {
	Items []outbox.Item `json:"items,omitempty"`
	Error string        `json:"error,omitempty"`
	Gone  bool          `json:"gone,omitempty"` // there is no such item
}

func serveOutbox(dir string, box *outbox.Outbox) (*control, error) {
	c, err := serveControl(dir, outboxSocket, func(ctx context.Context, request outboxRequest) outboxAnswer {
		return answerOutbox(ctx, box, request)
	})
	if err != nil {
		return nil, fmt.Errorf("serve the outbox: %w", err)
	}
	return c, nil
}

func answerOutbox(ctx context.Context, box *outbox.Outbox, request outboxRequest) (answer outboxAnswer) {
	var err error
	switch request.Op {
	case "list":
		answer.Items = box.Items()
	case "retry":
		err = box.Retry(request.ID)
	case "move":
		err = box.Move(ctx, request.ID, request.Group)
	case "discard":
		err = box.Discard(ctx, request.ID)
	default:
		err = fmt.Errorf("no such request: %q", request.Op)
	}
	if err != nil {
		answer.Error, answer.Gone = err.Error(), errors.Is(err, outbox.ErrGone)
	}
	return answer
}

// askOutbox asks the mount that has the outbox in a folder.
func askOutbox(ctx context.Context, dir string, request outboxRequest) (outboxAnswer, error) {
	return askControl[outboxRequest, outboxAnswer](ctx, dir, outboxSocket, request)
}
