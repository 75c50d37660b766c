//go:build race

package integration

// raceFlags build the programs under test with the race detector, with which these
// tests run.
var raceFlags = []string{"-race"}
