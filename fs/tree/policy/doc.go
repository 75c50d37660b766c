// Package policy holds what a mount decides by itself: which names are temporary, which
// programs only look, and what may be spent. It knows nothing of files.
package policy
