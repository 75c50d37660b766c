// Drives the unmodified npm package nova-sdk-js against a self-hosted service:
// node sdk.mjs URL. Each line of standard input is a call in JSON, with "account",
// "key", "group", "command" and "args". Answers each with one line of JSON.
import { createRequire } from 'node:module';
import { readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const require = createRequire(process.cwd() + '/');
const { NovaSdk } = require('nova-sdk-js');
console.log = console.warn = () => {};

const url = process.argv[2];

const commandsOf = (sdk, group) => ({
  status: () => sdk.authStatus(group),
  register: () => sdk.registerGroup(group),
  add: (member) => sdk.addGroupMember(group, member),
  revoke: (member) => sdk.revokeGroupMember(group, member),
  upload: (file, name) => sdk.upload(group, readFileSync(file), name),
  retrieve: async (ref, file) => {
    const got = await sdk.retrieve(group, ref);
    writeFileSync(file, got.data);
    return { ipfs_hash: got.ipfs_hash, group_id: got.group_id };
  },
  balance: () => sdk.getBalance(),
  owner: () => sdk.getGroupOwner(group),
  checksum: () => sdk.getGroupChecksum(group),
  authorized: (member) => sdk.isAuthorized(group, member),
  transactions: () => sdk.getTransactionsForGroup(group),
  network: () => sdk.getNetworkInfo(),
  token: () => sdk.refreshToken(),
  hash: async (file) => [sdk.computeHash(readFileSync(file)), await sdk.computeHashAsync(readFileSync(file))],
  composite: async (file, name) => {
    const up = await sdk.compositeUpload(group, readFileSync(file), name);
    const down = await sdk.compositeRetrieve(group, up.cid);
    return Buffer.compare(down.data, readFileSync(file)) === 0;
  },
  fee: async (action) => String(await sdk.estimateFee(action)),
});

// An SDK of an account is open until standard input ends.
const open = new Map();
const sdkOf = (account, key) => {
  const id = account + ' ' + key;
  if (!open.has(id)) open.set(id, new NovaSdk(account, { apiKey: key, authUrl: url, mcpUrl: url, rpcUrl: url + '/rpc', contractId: 'svc.testnet' }));
  return open.get(id);
};

for await (const line of createInterface({ input: process.stdin })) {
  const { account, key, group, command, args } = JSON.parse(line);
  try {
    process.stdout.write(JSON.stringify({ ok: await commandsOf(sdkOf(account, key), group)[command](...(args ?? [])) }) + '\n');
  } catch (e) {
    process.stdout.write(JSON.stringify({ error: String(e.message), name: e.name }) + '\n');
  }
}
