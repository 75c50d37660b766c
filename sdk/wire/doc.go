// Package wire holds the request and response shapes, paths, headers, error
// codes and dialects that a client and a service exchange. It has no
// logic beyond the encoding of its types and the version, and no dependencies, so that both
// sides can share it.
//
// Two generations of the hosted protocol exist. Generation A answers
// /tools/* with a bare result object and finalizes uploads at
// [PathFinalizeGenA]; generation B wraps every result as {"result": …}.
// What is marked "ours" belongs to the dialect [Ours]: the hosted service neither
// sends nor reads it, and a client works without it there.
package wire
