// Package sdktest is the contract suite: what every service promises its clients. Package
// testkit runs it in the process of the test, in each dialect, and integration runs it against svcd.
package sdktest
