//go:build race

package sdk_test

// raceDetector tells that these tests run with the race detector: the programs
// under test then do too.
const raceDetector = true
