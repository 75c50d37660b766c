// Package blocks reads recorded files block by block, through memory that keeps blocks for a while, and fetches ahead
// for readers in order. The mount reads so, and so does every file that package sdk opens; a file that was sealed whole
// is a file of one block. It is for the programs of this module, and promises others nothing.
package blocks
