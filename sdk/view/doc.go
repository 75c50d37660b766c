// Package view holds what a program knows of the files of one group. Proven rows come in through one door, and mount,
// agent and commands read what they made of the group.
//
// It is for the programs of this module: there is no promise that it stays as it is.
package view
