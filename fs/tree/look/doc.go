// Package look decides when a mount asks the ledger, and what it means when that fails. It owns no rows, and knows
// neither folders nor files: the tree says how a list is asked for, and shows what came.
//
//   - look: what a mount does by itself, a service that is away, questions that programs wait for
//   - list: one list: of the groups, or of the records of one group; its price; whether the account still belongs to it
//   - storage: the space for files, asked for in the background
//   - watch: what the service announces
//   - failed: looks that fail
//
// Data flows one way, from the tree through look to the service. Look calls back through [Config] and the function of
// each list, never with its lock held.
package look
