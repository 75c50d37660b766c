// Package sdktest holds what tests of clients and services share: an honest
// service in memory, in the dialects a client meets; a hostile one that tells
// exactly one lie; and a contract suite that every service must pass.
//
// The service in memory keeps the extensions although svcd has them. A liar signs
// lists that it rewrote, with the key of its own log, so that log and lists would stay
// in a filter before svcd as well, and both dialects share accounts, groups and
// files with the extensions. A filter would save the three handlers of watching, removing
// and renaming and the raw transfers, 200 lines, and would cost tests of the client a
// second process each.
//
// Everything listens on loopback and ends with the test that started it.
package sdktest
