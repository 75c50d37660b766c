package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MaxAnswers bounds what a program reads as answers to its questions, in bytes.
const MaxAnswers = 64 << 10

// Ask writes a question and reads the line that answers it until ctx ends, without the spaces around it.
func Ask(ctx context.Context, from io.Reader, to io.Writer, question string) (string, error) {
	fmt.Fprint(to, question)
	type answer struct {
		line string
		err  error
	}
	got := make(chan answer, 1)
	go func() { // a terminal cannot be read with an end
		var line []byte
		for one := make([]byte, 1); len(line) < MaxAnswers; { // no more than the line: the next question has the rest
			n, err := from.Read(one)
			if n > 0 && one[0] == '\n' {
				break
			}
			if n > 0 {
				line = append(line, one[0])
			}
			if err != nil {
				got <- answer{"", Refuse(ExitUsage, "answer each question, or stop with Ctrl-C",
					errors.New("the input ended"))}
				return
			}
		}
		got <- answer{strings.TrimSpace(string(line)), nil}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case answered := <-got:
		return answered.line, answered.err
	}
}
