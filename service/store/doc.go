// Package store is the SQL database: SQLite in one directory, or PostgreSQL. The same
// statements run on both. A write that was acknowledged survives a power cut.
//
// # Writes at the same time
//
// SQLite has one writer: all writes of all processes happen one after the other. On PostgreSQL
// writes run at the same time unless they name a chain in common, see [Chains], and
// [Everything] is every chain. Writes of one process that wait together share a commit, and a few
// commits of a process are under way at once, of different chains. A commit holds the lock of all
// writers, shared, or alone for Everything, and the lock of each of its chains. It takes them in one
// order before its first statement, so nobody waits for another in a circle there. While a commit
// waits for a chain of another process, all its writes wait. What relies on one write after the
// other, and what holds it together:
//
//   - Members, roles, settings, names, files and folders of a group, its list key, its parts
//     and which files use them: the chain of the group. A retrieval, a deletion and a
//     revocation of one group name it all three, so one of them is first. A file takes blocks
//     over from a file of its own group alone.
//   - Balance, key, free changes of a day, spent ids, ended journals, claims, unfinished uploads:
//     the chain of the account. Who makes another account a member or an owner names that one too:
//     its name may be given away, or it may be disabled, at that moment.
//   - The quotas of account and group are exact, because an upload names both. Records that
//     another account causes (an invite that is used counts for the owner of the group) may
//     exceed the quota of an account by their own bytes, once for each such write at a time.
//   - The reserve of the disk is looked at before a write, by each process for itself, and never
//     was behind a lock. Removals on a full disk add up in one row for all accounts.
//   - Names of accounts and groups, ids of uploads and parts, people who sign in: a unique key;
//     the write that comes second waits for the first, and then runs again alone.
//   - Invites, links: who deletes the row has used it.
//   - The sequence of a record, ids of file_keys and small_contents: a sequence of the database,
//     which may have gaps. A free row of these tables is locked by who finds it, and passed over by
//     others. The time of a record is behind that of the one before it in its chain.
//   - The place of a record in the whole ledger: package sequencer gives it, after the commit.
//   - Leases, a part that is written anew: one statement, which compares what it replaces. It names
//     no chain. A part is written anew without blocks that no file used when the sweep looked; a file
//     takes over only blocks that another one uses.
//   - Sweeps, retention, accounts that are disabled or end, the groups of a disabled account,
//     imports, keys of the service and migrations take [Everything].
//   - Counters of bytes, and rows of others that are too old, are changed under the locks of
//     their rows, in any order. Two writes may wait in a circle there: PostgreSQL ends one, and
//     it runs again alone, once. The isolation is READ COMMITTED, which has no serialization failures.
package store
