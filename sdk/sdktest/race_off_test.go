//go:build !race

package sdktest_test

const raceDetector = false
