//go:build !faultpoints

// Package faultpoint ends the process at named places between two durable
// steps, as a power cut would. It is compiled in with the build tag faultpoints;
// otherwise Hit does nothing.
package faultpoint

// Hit does nothing in this build.
func Hit(string) {}
