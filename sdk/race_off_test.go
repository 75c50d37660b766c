//go:build !race

package sdk_test

const raceDetector = false
