// Package sdktest holds what tests of clients and services share: an honest
// service in memory, in the flavours a client meets; a hostile one that tells
// exactly one lie; and a contract suite that every service must pass.
//
// Everything listens on loopback and ends with the test that started it.
package sdktest
