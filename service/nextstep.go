package service

import "errors"

// refusal is an error with what to do about it.
type refusal struct {
	error
	step string
}

func (r *refusal) Unwrap() error { return r.error }

// NextStepOf says what to do about an error of [Open]; "" = it is not known.
func NextStepOf(err error) string {
	var told *refusal
	if !errors.As(err, &told) {
		return ""
	}
	return told.step
}
