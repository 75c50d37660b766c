// Package report is what a mount shows of itself: the shapes and texts of the files below .svcfs, which the commands
// read. It asks nothing and knows no file: the tree fills the shapes in.
//
//   - errors: the last refusals and failures
//   - status: the state of a mount, and what is pending
//   - reasons: why something failed at a path, and what is left there
//   - ledger: the records of a group
package report
