// Package content is the bytes of one file: recorded ones, which never change, and the copy of them that programs
// change until it is recorded in turn. It knows no names, and of a group only the key of a file in the cache.
//
//   - state: the states of the content of a file, and all steps between them
//   - recorded: recorded content that is held, of any format; a file of format version 1 is one block
//   - source: recorded content in blocks, which asks the service when that is needed
//   - known: what stays known of content in blocks while no program has it open
//   - stage: content that programs change, over recorded content; package staging holds its bytes
//   - store: what the contents of all files share
//
// Nothing here is held while the service is asked but a [Recorded], and what comes from the service comes through an
// [Origin], which pays.
package content
