// Package policy holds the decisions of a mount that need nothing of its files: which names
// are temporary, which names look alike, which programs only look, how much may be spent,
// when the next look at the ledger is due, and whose turn it is.
package policy
