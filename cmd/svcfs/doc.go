// Svcfs is the user's program: it mounts the encrypted groups of an account as
// a folder, and puts, gets, lists and administers them without a mount.
//
// Run "svcfs help" for the commands, "svcfs demo" to see all of it work on this
// machine. Exit codes are listed in exitcode.go and never change meaning.
package main
