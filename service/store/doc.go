// Package store is the SQL database: SQLite in one directory, or PostgreSQL. The same
// statements run on both. A write that was acknowledged survives a power cut. All writes
// of all processes happen one after the other, so that balances and the chain of the
// ledger need no further locks.
//
// # Writes at the same time
//
// Each write names its [Chains], so that on PostgreSQL writes of other chains could run in
// other processes at the same time, as the field shares of [Store] has it. What relies on
// one write after the other, and what holds it together then:
//
//   - Members, roles, settings, names, files and folders of a group, its list key, its parts
//     and which files use them: the chain of the group. A retrieval, a deletion and a
//     revocation of one group name it all three, so one of them is first. A file takes blocks
//     over from a file of its own group alone.
//   - Balance, key, free changes of a day, spent ids, claims, unfinished uploads: the chain of
//     the account. Who makes another account a member or an owner names that one too: its name
//     may be given away, or it may be disabled, at that moment.
//   - The quotas of account and group are exact, because an upload names both. Records that
//     another account causes (an invite that is used counts for the owner of the group) may
//     exceed the quota of an account by their own bytes, once for each such write at a time.
//   - The reserve of the disk is looked at before a write, by each process for itself, and never
//     was behind the lock. Removals on a full disk add up in one row for all accounts.
//   - Names of accounts and groups, ids of uploads and parts, people who sign in: a unique key;
//     the write that comes second waits for the first, and then runs again alone.
//   - Invites, links: who deletes the row has used it.
//   - Leases, the bytes of a legacy file, a part that is written anew: one statement, which
//     compares what it replaces. It names no chain.
//   - Sweeps, retention, accounts that are disabled or end, the groups of a disabled account,
//     imports, keys of the service and migrations take [Everything].
//   - Counters of bytes, and rows of others that are too old, are changed under the locks of
//     their rows, in any order. Two writes may wait in a circle there: PostgreSQL ends one, and
//     it runs again alone.
//
// What has to change before shares may be set: the ledger takes sequence and time of a record
// from the newest one, and the trigger of record_ids counts on sequences without gaps; ids of
// file_keys and small_contents are one more than the largest, and two writes could take the
// same free row of file_keys and overwrite each other's key.
package store
