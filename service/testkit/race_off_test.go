//go:build !race

package testkit_test

const raceDetector = false
